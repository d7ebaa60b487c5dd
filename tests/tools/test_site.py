"""The site builds without a warning, loads nothing, fits screens, and its search finds pages."""

import shutil
import subprocess
import sys
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from operator import itemgetter

import pytest
from support import ROOT, missing

SEARCHES = [
    line.rsplit(maxsplit=1)
    for line in (ROOT / "tests/tools/searches.txt").read_text().splitlines()
    if line and not line.startswith("#")
]
"""What people type, and the pages that answer it, separated by `|`."""

MISSED = 50
"""One in so many may be missed, so that a sentence can change without a search for synonyms."""

COUNT = 3
"""One of these pages is among this number of first results."""


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The folder of the built site."""
    if not find_spec("material"):
        missing("there is no mkdocs-material; `pip install '.[docs]'` installs it")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "-f", ROOT / ".mkdocs.yml", "-d", folder]

    done = subprocess.run(command, capture_output=True, text=True, check=False, env=QUIET)

    assert done.returncode == 0, done.stderr
    return folder


SEARCH = """async searches => {
    const field = document.querySelector("input.md-search__input");
    const shown = () => [...document.querySelectorAll(".md-search-result__item > a[href]")];
    const message = () => document.querySelector(".md-search-result__meta").textContent;
    const type = async (text, ready) => {
        field.value = text;
        field.dispatchEvent(new KeyboardEvent("keyup", {key: "Shift"}));
        for (const end = Date.now() + 10000; !ready() && Date.now() < end;)
            await new Promise(resolve => setTimeout(resolve, 5));
    };
    const pages = [];
    for (const [text] of searches) {
        await type("", () => !shown().length && message().startsWith("Type"));
        await type(text, () => shown().length || message().startsWith("No"));
        pages.push([...new Set(shown().map(link => link.pathname))]);
    }
    return pages;
}"""
"""The pages that the search shows for each text, best first."""

QUIET = {"PATH": "/usr/bin:/bin", "NO_MKDOCS_2_WARNING": "1"}


class Handler(SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def address(site):
    """The address at which the site is served."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=site))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="module")
def page(address):
    """The start page in a browser that can reach only the site."""
    if not find_spec("playwright"):
        missing("there is no playwright; `pip install '.[docs]'` installs it")
    from playwright import sync_api as playwright

    names = ("chromium", "chromium-browser", "google-chrome")
    program = next(filter(None, map(shutil.which, names)), None)
    if program is None:
        missing("there is no chromium")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=program, args=["--no-sandbox"])
        page = browser.new_page()
        page.requests, page.mistakes = [], []
        page.on("request", lambda request: page.requests.append(request.url))
        page.on("pageerror", lambda error: page.mistakes.append(str(error)))
        page.goto(f"{address}/index.html")
        yield page
        browser.close()


def test_the_site_loads_nothing_from_elsewhere(page, address):
    page.get_by_placeholder("Search").first.click()

    assert page.mistakes == []
    assert {
        url for url in page.requests if not url.startswith((address, "data:", "blob:"))
    } == set()


def test_the_search_finds_the_pages(page):
    """What people type, and the first pages that the search shows for it."""
    page.locator("input.md-search__input").click()
    found = dict(zip(map(itemgetter(0), SEARCHES), page.evaluate(SEARCH, SEARCHES), strict=True))

    missed = [
        f"{typed:32} {answers:40} {[name[1:-5] for name in found[typed][:COUNT]]}"
        for typed, answers in SEARCHES
        if not {f"/{answer}.html" for answer in answers.split("|")} & {*found[typed][:COUNT]}
    ]

    assert len(missed) <= len(SEARCHES) // MISSED, "\n".join(["", *missed])


LONGEST = """() => {
    const range = document.createRange();
    let longest = "";
    for (const element of document.querySelectorAll(".md-content :is(p, li):not(table *, pre *)")) {
        if (element.textContent.length <= 80) continue;
        const lines = {}, texts = document.createTreeWalker(element, NodeFilter.SHOW_TEXT);
        while (texts.nextNode()) {
            const node = texts.currentNode;
            if (node.parentElement.closest("p, li, pre, table") !== element) continue;
            for (const word of node.data.matchAll(/\\S+\\s*/g)) {
                range.setStart(node, word.index);
                range.setEnd(node, word.index + word[0].trimEnd().length);
                const {top, bottom, height} = range.getBoundingClientRect();
                if (height > 24) continue;  // a word that is broken
                const line = Math.round((top + bottom) / 24);  // half of a line's height
                lines[line] = (lines[line] || "") + word[0];
            }
        }
        for (const line of Object.values(lines))
            if (line.trim().length > longest.length) longest = line.trim();
    }
    return longest;
}"""
"""Return the longest line of text on the page, outside tables and code."""


HIDDEN = """() => {
    const content = document.querySelector(".md-content");
    return content.scrollWidth - content.clientWidth;
}"""
"""The number of pixels of the page that are outside the screen."""


def hidden(view):
    """Return the number of pixels outside the screen when the layout no longer changes."""
    for _ in range(20):
        spare = view.evaluate(HIDDEN)
        if not spare:
            break
        view.wait_for_timeout(250)  # on a busy machine, Chromium resizes late
    return spare


def test_every_page_fits_the_screen(page, site, address):
    """A page is never wider than the screen, and a line of text has at most 80 characters."""
    wide = []
    with page.context.browser.new_context() as context:
        context.route("**/*.js", lambda route: route.abort())  # not needed, and slow
        view = context.new_page()
        for path in sorted(site.rglob("*.html")):
            name = path.relative_to(site)
            view.set_viewport_size({"width": 1366, "height": 844})
            view.goto(f"{address}/{name}")
            if len(line := view.evaluate(LONGEST)) > 80:
                wide.append(f"{name}: {len(line)} characters: {line}")
            for width in (1366, 390):
                view.set_viewport_size({"width": width, "height": 844})
                if spare := hidden(view):
                    wide.append(f"{name}: {spare} pixels too wide for {width}")

    assert wide == [], "\n".join(["", *wide])

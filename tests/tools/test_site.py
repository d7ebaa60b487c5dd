"""The site is built without a warning, needs no network, and its search answers the questions."""

import re
import shutil
import subprocess
import sys
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import pytest
from support import ROOT

QUESTIONS = re.findall(
    r"^- \[(.+?)\]\((\S+)\.md", (ROOT / "docs/questions.md").read_text(), re.MULTILINE
)
COUNT = 3
"""The page that answers is among so many results."""


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The folder of the built site."""
    pytest.importorskip("material", reason="building the site needs: pip install '.[docs]'")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "-f", ROOT / ".mkdocs.yml", "-d", folder]

    done = subprocess.run(command, capture_output=True, text=True, check=False, env=QUIET)

    assert done.returncode == 0, done.stderr
    return folder


RESULTS = """() => [...new Set(
    [...document.querySelectorAll(".md-search-result__item > a.md-search-result__link")]
        .map(link => link.pathname))]"""
"""The pages that the search shows, best first."""

SMALL = (
    "a all an and another are as before by can do does for from have how i in into is it its mlgen"
    " my not of on or out own s several so such the to use what when where which who why with"
    " write"
)
"""Words that nobody types into a search."""

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
    """The start page in a browser that reaches nothing but the site."""
    playwright = pytest.importorskip("playwright.sync_api", reason="searching needs playwright")
    names = ("chromium", "chromium-browser", "google-chrome")
    program = next(filter(None, map(shutil.which, names)), None)
    if program is None:
        pytest.skip("searching the site needs chromium")
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


def test_every_question_is_answered_by_the_search(page):
    """Types the words of each question into the site's own search, as a person does."""
    field = page.locator("input.md-search__input")
    field.click()
    unanswered = {}
    for question, answer in QUESTIONS:
        words = [
            word for word in re.findall(r"[\w.-]+", question) if word.lower() not in SMALL.split()
        ]
        field.fill(" ".join(words))
        field.press("Shift")
        results = []
        for _ in range(100):  # they arrive from a worker
            page.wait_for_timeout(50)
            results = page.evaluate(RESULTS)[:COUNT]
            if f"/{answer}.html" in results:
                break
        else:
            unanswered[" ".join(words)] = (answer, results)

    assert len(QUESTIONS) >= 40
    assert unanswered == {}

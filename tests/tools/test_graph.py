"""`mlgen graph` in a real browser, and its text formats with the programs that read them."""

import subprocess

import pytest
from support import FIXTURES, ROOT

from mlgen import frameworks, validate
from mlgen.graph import drawing

EXAMPLES = [
    next(path for path in FIXTURES if path.stem.startswith(name)) for name in frameworks.names()
]
"""One job file of each framework."""

CLIPPED = """() => [...document.querySelectorAll(".box")].flatMap(box => {
    const [body, badge] = [".body", ".pill"].map(name => box.querySelector(name)?.getBBox());
    const inside = (text, area) => text.x >= area.x && text.x + text.width <= area.x + area.width
        && text.y >= area.y && text.y + text.height <= area.y + area.height + 2;
    return [...box.querySelectorAll("text")]
        .filter(text => !inside(text.getBBox(), text.closest(".badge") ? badge : body))
        .map(text => text.textContent);
})"""
"""The texts that stick out of their boxes."""

COLOR = """() => getComputedStyle(document.querySelector(".body")).fill"""


def job(path):
    return validate(str(path)).jobs[0]


@pytest.fixture(scope="module")
def browser(tool):
    """Chromium, which may not load anything but the page itself."""
    playwright = pytest.importorskip("playwright.sync_api", reason="needs: pip install '.[docs]'")
    with playwright.sync_playwright() as api:
        browser = api.chromium.launch(executable_path=tool("chromium"), args=["--no-sandbox"])
        yield browser
        browser.close()


def opened(browser, text, **options):
    """Return a page with a text as its content; a request for anything else fails the test."""
    page = browser.new_page(**options)
    page.route("**/*", lambda route: pytest.fail(f"the page loads {route.request.url}"))
    page.on("pageerror", lambda error: pytest.fail(str(error)))
    page.set_content(text)
    return page


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_no_text_is_wider_than_its_box(browser, path):
    page = opened(browser, drawing(job(path), "svg"))

    assert page.evaluate(CLIPPED) == []
    page.close()


def test_a_box_shows_its_manifests(browser):
    page = opened(browser, drawing(job(ROOT / "fixtures/tensorflow-ps.yaml"), "html"))

    assert page.locator("section.shown").inner_text().startswith("mnist: tensorflow")
    page.locator("[data-box=role_worker]").click()
    assert page.locator("section.shown").inner_text().startswith("worker 0…3\n")
    assert "name: mnist-worker" in page.locator("section.shown pre").inner_text()
    page.locator("[data-box=role_ps]").focus()
    page.keyboard.press("Enter")
    assert "kind: StatefulSet" in page.locator("section.shown pre").inner_text()
    assert page.locator("[aria-pressed=true]").get_attribute("data-box") == "role_ps"
    page.close()


def test_a_picture_is_light_or_dark_as_the_reader_wants(browser):
    text = drawing(job(ROOT / "fixtures/tensorflow-ps.yaml"), "svg")
    colors = {}
    for scheme in ("light", "dark"):
        page = opened(browser, text, color_scheme=scheme)
        colors[scheme] = page.evaluate(COLOR)
        page.close()

    assert colors == {"light": "rgb(255, 255, 255)", "dark": "rgb(28, 37, 48)"}


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_graphviz_draws_the_graph(tool, path):
    graph = drawing(job(path), "dot")

    done = subprocess.run(
        [tool("dot"), "-Tplain"], input=graph, capture_output=True, text=True, check=False
    )

    assert (done.returncode, done.stderr) == (0, "")

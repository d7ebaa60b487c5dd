"""Links lead to existing pages, anchors and images, and the menu contains every page."""

import re

from pages import DOCS, PAGES, blocks, headings, links
from support import ROOT, load

CONFIG = (ROOT / ".mkdocs.yml").read_text()
PAGES_AND_MORE = [*PAGES, ROOT / "CONTRIBUTING.md"]


def menu(node):
    """Return the paths in the site's menu."""
    if isinstance(node, str):
        return [node]
    return [
        path for item in (node.values() if isinstance(node, dict) else node) for path in menu(item)
    ]


def leads_somewhere(page, link):
    target, _, anchor = link.partition("#")
    path = (page.parent / target).resolve() if target else page
    inside = path.is_relative_to(DOCS) or not page.is_relative_to(DOCS)
    return path.exists() and inside and (not anchor or anchor in headings(path))


def test_every_link_leads_somewhere():
    broken = [
        f"{page.relative_to(ROOT)}: {link}"
        for page in PAGES_AND_MORE
        for link in links(page)
        if not re.match(r"(https?|mailto):", link) and not leads_somewhere(page, link)
    ]

    assert [] == broken


def test_the_menu_has_every_page_once():
    listed = menu(load(CONFIG)["nav"])

    assert sorted(listed) == sorted(str(path.relative_to(DOCS)) for path in DOCS.rglob("*.md"))


def test_no_page_loads_a_script():
    """The site would load a script from the network to draw such blocks."""
    drawn = [page.name for page in PAGES for block in blocks(page) if block.language == "mermaid"]

    assert drawn == []


def test_every_page_has_one_title():
    """The title names the page in the menu and in search results."""
    several = {}
    for page in DOCS.rglob("*.md"):
        text = re.sub(r"\A---\n.*?^---\n\n", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
        text = re.sub(r"^ *```.*?^ *```", "", text, flags=re.MULTILINE | re.DOTALL)
        titles = re.findall(r"^# (.*)", text, re.MULTILINE)
        if len(titles) != 1 or not text.startswith("# "):
            several[page.name] = titles

    assert several == {}

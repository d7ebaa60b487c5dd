"""The gallery lists each example once."""

import re

from pages import DOCS
from support import ROOT


def test_the_gallery_lists_every_fixture_once():
    listed = re.findall(r"^\| `(fixtures/\S+)` \|", (DOCS / "gallery.md").read_text(), re.MULTILINE)

    assert sorted(listed) == sorted(
        str(path.relative_to(ROOT)) for path in ROOT.glob("fixtures/*.yaml")
    )

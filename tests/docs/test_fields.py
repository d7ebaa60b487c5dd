"""Every field of the job file that a page names exists: `mlgen explain` describes it."""

import re

from click.testing import CliRunner
from pages import PAGES
from support import ROOT

from mlgen.cli import main

BLOCKS = "runPolicy|scheduling|network|security|helpers|wait"
NAMED = re.compile(rf"`(spec\.[\w.]+|(?:{BLOCKS})\.[\w.]+)`")
OTHERS = {
    "scheduling.volcano.sh",  # an API group
    "spec.args.lr",  # a flag, for --set
    "spec.command.lr",
    "spec.roles.worker.args.lr",
    "spec.serviceName",  # of a StatefulSet
}
RESOURCES = "migrate"
"""A word in the names of pages with fields of the operators' resources."""


def test_every_field_that_a_page_names_exists():
    pages = {}
    for page in PAGES:
        if RESOURCES not in str(page.relative_to(ROOT)):
            for field in {*NAMED.findall(page.read_text())} - OTHERS:
                pages.setdefault(f"spec.{field.removeprefix('spec.')}", []).append(page.name)
    unknown = {
        field: names
        for field, names in pages.items()
        if CliRunner().invoke(main, ["explain", field]).exit_code
    }

    assert len(pages) > 50
    assert {} == unknown

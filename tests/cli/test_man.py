"""`mlgen man` prints manual pages."""

import pytest
from click.testing import CliRunner
from syrupy.extensions.single_file import SingleFileSnapshotExtension, WriteMode

from mlgen import __version__
from mlgen.cli import COMMANDS, GROUPS, main


class Page(SingleFileSnapshotExtension):
    """The source of a manual page."""

    file_extension = "1"
    _write_mode = WriteMode.TEXT


def man(*arguments):
    return CliRunner().invoke(main, ["man", *arguments], catch_exceptions=False)


@pytest.mark.parametrize("name", ["completion", "explain"])
def test_the_page_of_a_command(name, snapshot):
    page = man(name).stdout.replace(__version__, "VERSION")

    assert page == snapshot.use_extension(Page)


def test_the_page_of_mlgen_has_all_commands():
    page = man().stdout

    assert page.startswith('.TH "MLGEN" "1"')
    for title in GROUPS:
        assert f'.SH "{title.upper()}"\n' in page
    for name in COMMANDS:
        escaped = name.replace("-", "\\-")
        assert f'.SS "mlgen {escaped} [OPTIONS]' in page
    assert "\n.TP\n.B mlgen argocd generate [OPTIONS]\nPrint the manifests of the folder.\n" in page


def test_an_unknown_command():
    result = man("rendr")

    assert (2, "") == (result.exit_code, result.stdout)
    assert result.stderr.endswith('Error: unknown command "rendr"; did you mean "render"?\n')


def test_lines_do_not_start_with_a_macro_by_accident():
    from mlgen.reference.man import Manual, page

    paragraphs = (".TH or 'x' \\fB", "a\nb")
    manual = Manual("mlgen x", "mlgen x", "Do it.", paragraphs, ".PP\n'a'", (), ())

    assert page(manual, "1").splitlines()[7:] == [
        *(".PP", "\\&.TH or 'x' \\efB", ".PP", ".RS 4", ".nf", "a", "b", ".fi", ".RE"),
        *(".SH EXAMPLES", ".RS 4", ".nf", "\\&.PP", "\\&'a'", ".fi", ".RE"),
        *(".SH SEE ALSO", ".BR mlgen (1)"),
    ]

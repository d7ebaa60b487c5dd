"""`mlgen render -o DIR` and `--check DIR`: one file per object; other files are left alone."""

import subprocess

import pytest
import yaml
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from support import LOADER, ROOT, each_file, printed, without_totals

from mlgen.cli import main
from mlgen.documents.files import texts
from mlgen.output import folder
from mlgen.pipeline import render as rendered
from mlgen.result import Options

HEAD = "# Made by mlgen render. Do not edit: edit the job and render it again.\n---\n"
BERT, TUNE = ROOT / "fixtures/pytorch-static.yaml", ROOT / "fixtures/tensorflow-single.yaml"
BAD = ROOT / "fixtures/invalid/unknown-role.yaml"


@pytest.fixture(autouse=True)
def here(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*words):
    words = ["render", *map(str, words)]
    done = CliRunner().invoke(main, words, catch_exceptions=False)
    return done.exit_code, done.stdout, without_totals(done.stderr)


def state(path):
    """Every file with its modification time."""
    return {f: (f.read_bytes(), f.stat().st_mtime_ns, f.stat().st_ino) for f in path.rglob("*.*")}


def names(path):
    return sorted(file.name for file in path.iterdir())


def job(name="mnist", roles="chief: {}, evaluator: {}", spec=""):
    """A job whose roles do not contain each other's addresses."""
    return f"""apiVersion: mlgen.dev/v1alpha1
kind: TrainingJob
metadata: {{name: {name}}}
spec:
  framework: tensorflow
  image: example/mnist:1
  runPolicy: {{cleanPodPolicy: None}}
  roles: {{{roles}}}
{spec}"""


@each_file()
def test_each_object_is_written_to_a_file_as_it_is_printed(file):
    result = rendered(texts((str(file),)), Options())
    files = printed(texts((str(file),)), Options(), "folder").files()
    objects = [yaml.load(text, LOADER) for text in files.values()]

    assert all(text.startswith(HEAD) for text in files.values())
    assert 1 == sum("\n#   " in text.partition("\napiVersion")[0] for text in files.values())
    assert [item for part in result.jobs for item in part.objects] == objects


def test_what_a_folder_holds(here, manifest):
    assert (0, "", "") == run(BERT, "-n", "team-a", "-o", "k8s/bert/")

    objects = ["configmap_bert.config", "job_bert-rank", "service_bert-rank-0", "service_bert"]
    assert [f"team-a_{name}.yaml" for name in objects] == names(here / "k8s/bert")
    assert (here / "k8s/bert/team-a_job_bert-rank.yaml").read_text() == manifest


def test_an_existing_folder_needs_no_slash(here):
    (here / "out").mkdir()

    run(TUNE, "-o", "out")

    assert ["job_tune-worker.yaml", "service_tune.yaml"] == names(here / "out")


NAMES = {
    "configmap_data.yaml": ("v1", "ConfigMap", {"name": "data"}),
    "a_job_data.yaml": ("batch/v1", "Job", {"name": "data", "namespace": "a"}),
    "role_data.yaml": ("rbac.authorization.k8s.io/v1", "Role", {"name": "data"}),
    "podgroup.scheduling.volcano.sh_x.yaml": (
        "scheduling.volcano.sh/v1beta1",
        "PodGroup",
        {"name": "x", "namespace": ""},
    ),
    "clusterrole_system%3a%4eode%2fa.yaml": (
        "rbac.authorization.k8s.io/v1",
        "ClusterRole",
        {"name": "system:Node/a"},
    ),
    "secret_%c3%a9%5f...yaml": ("v1", "Secret", {"name": "é_.."}),
}


@pytest.mark.parametrize("name", NAMES)
def test_the_name_of_a_file(name):
    version, kind, metadata = NAMES[name]

    assert name == folder.file_name({"apiVersion": version, "kind": kind, "metadata": metadata})


word = st.text("aB._-%é/", min_size=1, max_size=4)
ITEMS = st.builds(
    lambda group, kind, namespace, name: {
        "apiVersion": f"{group}v1",
        "kind": kind,
        "metadata": {"name": name} | ({"namespace": namespace} if namespace else {}),
    },
    st.sampled_from(["", "x.org/", "a.x.org/"]),
    st.sampled_from(["Job", "Jobs", "A"]),
    st.just("") | word,
    word,
)


@given(ITEMS, ITEMS)
def test_two_objects_never_share_a_file(one, other):
    names = {folder.file_name(one), folder.file_name(other)}

    assert (one == other) == (len(names) == 1)
    assert not any(set(name) & {"/", ":"} or name != name.lower() for name in names)


FOREIGN = {
    "comments": b"---\n# mine\napiVersion: v1  # as it is\nkind: ConfigMap\n"
    b"metadata: {name: data}\ndata: {LR: 1e-5}\n",
    "windows": b"---\r\napiVersion: v1\r\nkind: ConfigMap\r\nmetadata: {name: data}\r\n",
    "json": b'---\n{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "data"}}\n',
}


@pytest.mark.parametrize("case", FOREIGN)
def test_other_objects_are_copied_byte_for_byte(case, here):
    (here / "data.yaml").write_bytes(FOREIGN[case])

    run("data.yaml", "-o", "out/")

    marker = HEAD.partition("\n")[0].encode()
    assert marker + b"\n" + FOREIGN[case] == (here / "out/configmap_data.yaml").read_bytes()


def test_files_of_removed_objects_are_deleted_and_no_others(here):
    out = here / "out"
    others = {"README.md": HEAD, "kustomization.yaml": "resources: []\n", "sub/job_a.yaml": HEAD}
    (out / "sub").mkdir(parents=True)
    for name, text in others.items():
        (out / name).write_text(text)
    (here / "job.yaml").write_text(job())
    run("job.yaml", "-o", "out")
    assert "job_mnist-evaluator.yaml" in names(out)

    (here / "job.yaml").write_text(job(roles="chief: {}"))
    assert (0, "", "") == run("job.yaml", "-o", "out")

    files = ["job_mnist-chief.yaml", "service_mnist.yaml"]
    assert sorted(["README.md", "kustomization.yaml", "sub", *files]) == names(out)
    assert others == {name: (out / name).read_text() for name in others}


def test_unchanged_files_are_not_rewritten(here):
    (here / "job.yaml").write_text(job())
    run("job.yaml", "-o", "out/")
    before = state(here / "out")
    (here / "job.yaml").write_text(job(roles="chief: {}, evaluator: {image: other}"))

    run("job.yaml", "-o", "out/")

    after = state(here / "out")
    changed = {file.name for file in after if after[file] != before[file]}
    assert {"job_mnist-evaluator.yaml"} == changed
    run("job.yaml", "-o", "out/")
    assert after == state(here / "out")


@pytest.mark.parametrize("words", [[BERT, BAD], [BERT, "job.yaml"]])
def test_nothing_is_written_if_there_is_an_error(words, here):
    """The job file is invalid, or one of the files was not written by mlgen."""
    (here / "job.yaml").write_text(job())
    run("job.yaml", "-o", "out/")
    (here / "out/job_mnist-chief.yaml").write_text("mine\n")
    before = state(here / "out")

    status, out, err = run(*words, "-o", "out/")

    assert (1, "", before) == (status, out, state(here / "out"))
    assert err


def test_files_of_other_versions_are_recognized(here):
    (here / "out").mkdir()
    (here / "out/job_old.yaml").write_text("# Made by mlgen render, in another version\r\n")

    run(TUNE, "-o", "out")

    assert ["job_tune-worker.yaml", "service_tune.yaml"] == names(here / "out")


def test_a_file_in_place_of_the_folder_is_an_error(here):
    (here / "out").write_text("mine")

    result = run(TUNE, "-o", "out/")

    assert (1, "", "Error: out: cannot be written: Not a directory\n") == result
    assert "mine" == (here / "out").read_text()


NOTE = HEAD.partition("\n")[0] + "\n"
GANG = "  runPolicy: {restartScope: All}\n"


def folded(name):
    return f"/configmap_{name}.supervisor.yaml linguist-generated gitlab-generated\n"


def gangs(*jobs, image=""):
    text = "---\n".join(
        job(name).replace("  runPolicy: {cleanPodPolicy: None}\n", GANG) for name in jobs
    )
    return text + image


def attributes(file, *programs):
    command = ["git", "check-attr", *programs, "--", file]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return [row.rpartition(": ")[2] for row in done.stdout.splitlines()]


def test_git_hosts_fold_the_program_and_nothing_else(here):
    subprocess.run(["git", "init", "-q"], check=True)
    (here / "k8s/sub").mkdir(parents=True)
    (here / "job.yaml").write_text(gangs("a", "b"))

    assert (0, "", "") == run("job.yaml", "-n", "team", "-o", "k8s/")

    files = [f"k8s/{name}" for name in names(here / "k8s") if name.endswith(".yaml")]
    both = ("linguist-generated", "gitlab-generated")
    marked = [file for file in files if attributes(file, *both) == ["set", "set"]]
    assert [f"k8s/team_configmap_{name}.supervisor.yaml" for name in "ab"] == marked
    assert all("supervisor.pyz: " in (here / file).read_text() for file in marked)
    assert {"unspecified"} == {
        each for file in {*files} - {*marked} for each in attributes(file, *both)
    }
    assert ["unspecified"] == attributes("k8s/sub/team_configmap_a.supervisor.yaml", both[0])
    assert ["unspecified"] == attributes(marked[0], "diff")  # `git diff` shows it


def test_an_object_of_the_user_is_not_folded(here):
    (here / "mine.yaml").write_text(
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: evil.supervisor\n  labels:"
        " {app.kubernetes.io/component: supervisor}\nbinaryData: {supervisor.pyz: UEs=}\n"
    )
    (here / "job.yaml").write_text(gangs("a"))

    run("job.yaml", "mine.yaml", "-o", "k8s/")

    assert "configmap_evil.supervisor.yaml" in names(here / "k8s")
    assert NOTE + folded("a") == (here / "k8s/.gitattributes").read_text()


def test_a_folder_without_a_program_has_no_attributes(here):
    (here / "job.yaml").write_text(gangs("a", image="  helpers: {supervisorImage: mlgen:1}\n"))

    run("job.yaml", TUNE, "-o", "k8s/")

    assert "configmap_a.supervisor.yaml" in names(here / "k8s")
    assert ".gitattributes" not in names(here / "k8s")


LINES = {
    "none": (b"", b"", b""),
    "before": (b"* -text\n\n# mine\n/x.yaml linguist-generated gitlab-generated\n", b"", b""),
    "without an end": (b"* text=auto", b"", b"\n"),
    "after": (b"*.yaml\r\n", b"/configmap_a.supervisor.yaml -linguist-generated\r\n*.md\n", b""),
    "words": ("é \u2028 *.x\x0c a\n".encode(), b"# \xc3\xa9 linguist-generated", b""),
}


@pytest.mark.parametrize("case", LINES)
def test_other_lines_of_the_attributes_do_not_change(case, here):
    before, after, end = LINES[case]
    file = here / "k8s/.gitattributes"
    file.parent.mkdir()
    own = [b"", *((NOTE + "".join(map(folded, jobs))).encode() for jobs in ("b", "ac"))]
    file.write_bytes(before + (end + own[1] if after else b"") + after)
    (here / "job.yaml").write_text(gangs("c", "a"))

    run("job.yaml", "-o", "k8s/")
    assert before + end + own[2] + after == file.read_bytes()
    state_before = state(here)
    assert (0, "", "") == run("job.yaml", "-o", "k8s/")
    assert (0, "", "") == run("job.yaml", "--check", "k8s/")
    assert state_before == state(here)

    run(TUNE, "-o", "k8s/")
    assert before + end + after == (file.read_bytes() if file.exists() else b"")
    assert file.exists() == bool(before + after)


def test_a_check_reports_attributes_that_are_missing_or_stale(here):
    (here / "job.yaml").write_text(gangs("a"))
    run("job.yaml", "-o", "k8s/")
    file = here / "k8s/.gitattributes"
    for text in ("", "* -text\n", f"{NOTE}{folded('old')}* -text\n"):
        file.unlink() if not text else file.write_text(text)

        status, out, err = run("job.yaml", "--check", "k8s")
        assert 3 == status
        assert f"+{folded('a')}" in out
        assert err.startswith("k8s is stale: 1 file would change; ")
        (here / "patch").write_text(out)
        command = ["git", "apply", "-p0", "--whitespace=nowarn", "patch"]
        subprocess.run(command, check=True, cwd=here)
        assert (0, "", "") == run("job.yaml", "--check", "k8s")


@pytest.mark.parametrize("kind", ["link", "folder", "bytes"])
def test_attributes_that_mlgen_cannot_change_are_left_alone(kind, here):
    file = here / "k8s/.gitattributes"
    file.parent.mkdir()
    (here / "mine").write_text("* -text\n")
    if kind == "link":
        file.symlink_to(here / "mine")
    elif kind == "folder":
        file.mkdir()
    else:
        file.write_bytes(b"\xff -text\n")
    (here / "job.yaml").write_text(gangs("a"))

    assert (0, "", "") == run("job.yaml", "-o", "k8s/")
    assert (0, "", "") == run("job.yaml", "--check", "k8s/")

    assert (kind == "link", kind == "folder") == (file.is_symlink(), file.is_dir())
    assert kind != "bytes" or file.read_bytes() == b"\xff -text\n"
    assert "* -text\n" == (here / "mine").read_text()


def test_a_check_of_a_fresh_folder_prints_nothing(here):
    run(BERT, TUNE, "-o", "out/")
    (here / "out/README.md").write_text("mine")
    before = state(here / "out")

    assert (0, "", "") == run(BERT, TUNE, "--check", "out")
    assert before == state(here / "out")


@pytest.fixture
def stale(here):
    """A folder with a changed file, one without a last newline, an extra and a missing one."""
    (here / "job.yaml").write_text(job())
    run("--no-supervisor", "job.yaml", "-o", "out/")
    chief, service = here / "out/job_mnist-chief.yaml", here / "out/service_mnist.yaml"
    chief.write_text(chief.read_text().replace("mnist:1", "mnist:0\x0c"))
    service.write_text(service.read_text().rstrip("\n"))
    (here / "job.yaml").write_text(job(roles="chief: {}, evaluator: {replicas: 0}"))
    (here / "data.yaml").write_text(FOREIGN["comments"].decode())
    return ["--no-supervisor", "job.yaml", "data.yaml"]


def test_a_check_of_a_stale_folder_prints_the_difference_and_writes_nothing(stale, here, message):
    before = state(here)

    status, out, err = run(*stale, "--check", "out")

    assert (3, before) == (status, state(here))
    assert out == message
    assert err.startswith("out is stale: 4 files would change; ")


def test_the_difference_is_a_patch_that_makes_the_folder_fresh(stale, here):
    (here / "patch").write_text(run(*stale, "--check", "out")[1])

    subprocess.run(["git", "apply", "-p0", "--whitespace=nowarn", "patch"], check=True)

    assert (0, "", "") == run(*stale, "--check", "out")


def test_the_difference_of_a_file_with_many_lines_is_not_shown(stale, here, monkeypatch):
    monkeypatch.setattr("mlgen.output.folder.PATCH_LINES", 30)
    (here / "out/service_mnist.yaml").write_text("# Made by mlgen render" + "\n" * 1000)

    status, out, _ = run(*stale, "--check", "out")

    assert 3 == status
    assert "--- out/service_mnist.yaml\n+++ out/service_mnist.yaml\n# more than 30 lines," in out
    assert out.count("\n") < 200


def test_a_file_that_is_too_large_is_not_read(stale, here, monkeypatch):
    monkeypatch.setattr("mlgen.output.folder.TEXT_BYTES", 10_000)
    (here / "out/service_mnist.yaml").write_text("# Made by mlgen render" + "\n" * 10_000)

    status, out, err = run(*stale, "--check", "out")

    assert (1, "") == (status, out)
    assert "out: cannot be read: service_mnist.yaml is larger than 0 MiB" in err


def test_a_check_of_a_missing_folder_does_not_create_it(here):
    status, out, _ = run(TUNE, "--check", "out/")

    assert 3 == status
    assert ["--- /dev/null"] * 2 == [row for row in out.splitlines() if row.startswith("--- ")]
    assert [] == names(here)


def test_a_check_with_an_error_exits_with_1_not_3():
    assert (1, "") == run(BAD, "--check", "out")[:2]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["job.yaml", "-o", "out/", "--check", "out"], "mutually exclusive"),
        (
            ["job.yaml", "-o", "out/", "--format", "json"],
            "has no effect on a folder, which gets YAML files",
        ),
        (
            ["job.yaml", "--check", "out", "--format", "json"],
            "has no effect on a folder, which gets YAML files",
        ),
        (["job.yaml", ".", "-o", "./"], "is both input and output"),
    ],
)
def test_a_wrong_command_line(words, message, here):
    (here / "job.yaml").write_text(job())

    status, out, err = run(*words)

    assert (2, "") == (status, out)
    assert message in err
    assert ["job.yaml"] == names(here)


def test_an_empty_name_is_not_the_current_folder(here):
    """An unset shell variable leads to an empty name."""
    assert 1 == run(TUNE, "-o", "")[0]
    assert [] == names(here)

"""`mlgen helm-post-render`: every job in a chart is rendered, and all other text is unchanged."""

import base64
import hashlib
import json
import os
import re
import shlex
import stat
import subprocess
import sys
import threading

import pytest
import yaml
from click.testing import CliRunner
from hypothesis import example, given
from hypothesis import strategies as st
from support import FIXTURES, ONE_OF_MANY, RESOURCES, ROOT, each_file, load, load_all

from mlgen import MlgenError, Options, __version__
from mlgen.cli import main
from mlgen.documents import files
from mlgen.integrations.helm import ANNOTATION, post_render, report_failure

JOB = """\
apiVersion: mlgen.dev/v1alpha1
kind: TrainingJob
metadata:
  name: bert
spec:
  framework: generic
  image: example/bert:2
  command: [python, train.py]
  roles:
    main: {}
"""

HELM_3 = f"""\
---
# Source: shop/templates/config.yaml
apiVersion:   v1   # odd
kind: ConfigMap
metadata: {{name: "prices",
  labels: {{a: 'b'}}}}
---
# Source: shop/templates/job.yaml
# A comment of the chart.
{JOB}---
# Source: shop/templates/list.yaml
apiVersion: v1
kind: List
items:
- apiVersion: v1
  kind: ConfigMap
  metadata: {{name: beside}}
- apiVersion: kubeflow.org/v1
  kind: PyTorchJob
  metadata: {{name: vit}}
  spec:
    pytorchReplicaSpecs:
      Master:
        replicas: 1
        template: {{spec: {{containers: [{{name: pytorch, image: example/vit:1}}]}}}}
---
# Source: shop/templates/tests/ping.yaml
apiVersion: v1
kind: Pod
metadata: {{name: ping}}
"""
"""As Helm 3 passes it."""

HELM_4 = f"""\
# odd
apiVersion: v1
kind: ConfigMap
metadata: {{name: prices, annotations: {{{ANNOTATION}: 'shop/templates/config.yaml'}}}}
---
apiVersion: mlgen.dev/v1alpha1
kind: TrainingJob
metadata:
  name: bert
  annotations:
    helm.sh/resource-policy: keep
    {ANNOTATION}: 'shop/templates/job.yaml'
spec:
  framework: generic
  image: example/bert:2
  roles:
    main: {{}}
---
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {{name: vit, annotations: {{{ANNOTATION}: 'shop/templates/list.yaml'}}}}
spec:
  pytorchReplicaSpecs:
    Master:
      replicas: 1
      template: {{spec: {{containers: [{{name: pytorch, image: example/vit:1}}]}}}}
---
apiVersion: v1
kind: Pod
metadata: {{name: ping, annotations: {{{ANNOTATION}: 'shop/templates/tests/ping.yaml'}}}}
"""
"""As Helm 4 passes it."""


def run(stdin, *words):
    data = stdin if isinstance(stdin, bytes) else stdin.encode()
    done = CliRunner().invoke(main, ["helm-post-render", *words], data, catch_exceptions=False)
    return done.exit_code, done.stdout_bytes, done.stderr


def passed(stdin, *words):
    code, out, err = run(stdin, *words)
    assert (0, "") == (code, err)
    return out


def annotated(text):
    """Add Helm 4's annotation to each job of a text, next to its own annotations."""
    documents = [line for line in re.split(r"(?m)^---\n", text) if "apiVersion" in line]
    for document in documents:
        item = load(document)
        note = f"{ANNOTATION}: 'shop/templates/job.yaml'"
        old = item["metadata"].get("annotations") or {}
        notes = ", ".join([note, *(f"{key!r}: {value!r}" for key, value in old.items())])
        meta = item["metadata"] | {"annotations": None}
        line = f"metadata: {yaml.safe_dump(meta, default_flow_style=True, width=9999)}"
        line = line.replace("annotations: null", f"annotations: {{{notes}}}")
        yield re.sub(r"(?m)^metadata:.*\n(?:[ #].*\n)*", lambda _, line=line: line, document)


@pytest.mark.parametrize("stream", ["HELM_3", "HELM_4"])
def test_manifests(stream, manifest):
    assert passed(globals()[stream]).decode() == manifest


def test_other_documents_pass_through_byte_for_byte():
    out = passed(HELM_3).decode()
    first, *_, last = HELM_3.split("---\n")[1:]

    assert out.startswith(f"---\n{first}---\n")
    assert out.endswith(f"---\n{last}")


def test_every_object_has_the_source_comment_of_its_job():
    documents = passed(HELM_3).decode().split("---\n")[1:]
    names = [re.search(r"^# Source: shop/templates/(\S+)", text)[1] for text in documents]

    assert ["config", "job", "list", "tests/ping"] == list(
        dict.fromkeys(name.removesuffix(".yaml") for name in names)
    )


FEATURES = ("clean-all", "host-network", "volcano", "kubectl-exec", "files")
SOME = [path for path in FIXTURES if path.stem.endswith(FEATURES)]
"""Job files with a supervisor, Services, a PodGroup, permissions or a ConfigMap."""


@each_file(files=[*SOME, *RESOURCES])
def test_the_annotation_of_helm_4_is_on_every_object_and_not_on_pod_templates(file):
    code, out, err = run("---\n".join(annotated(file.read_text())))

    assert 0 == code, err
    items = load_all(out)
    assert {"shop/templates/job.yaml"} == {i["metadata"]["annotations"][ANNOTATION] for i in items}
    assert len(items) == out.decode().count(ANNOTATION)


def test_a_name_suffix_does_not_depend_on_the_annotation_of_helm_4():
    suffixed = HELM_4.replace("name: bert", "name: bert\n  nameSuffix: hash")
    without = re.sub(rf"\n *{ANNOTATION}:.*", "", suffixed)

    names = [
        [item["metadata"]["name"] for item in load_all(passed(text))]
        for text in (suffixed, without)
    ]

    assert names[0] == names[1]
    assert any(re.match(r"bert-\w{8}-main", name) for name in names[0])


NASTY = [
    b"",
    b"\n",
    b"# only a comment\n",
    b"{{ no YAML at all\r\n\t: [\n",
    b"\xff\xfe\x00bytes \x80\n",
    b"apiVersion: v1\r\nkind: ConfigMap\r\ndata: {a:   'b'   }   # odd\r\n",
    b"kind: ConfigMap\ndata:\n  x: |\n    apiVersion: mlgen.dev/v1alpha1\n    kind: TrainingJob\n",
    b"# apiVersion: mlgen.dev/v1alpha1\n# kind: TrainingJob\n",
    b"[ apiVersion: kubeflow.org/v1, kind: TFJob\n",
    b"\xff apiVersion: kubeflow.org/v1\nkind: TFJob\n",
    b"apiVersion: kubeflow.org/v1\nkind: Notebook\nmetadata:   {name: nb}\n",
    b"apiVersion: v1\nkind: List\nitems:   []\n",
    b"apiVersion: v1\nkind: List\nitems:\n- {apiVersion: kubeflow.org/v1, kind: Profile}\n",
    b"a: 1\na: 2\nb: {apiVersion: batch.volcano.sh/v1alpha1, kind: Job}\n",
    b"a: &x [*x]\n",
    b"...\n",
    b"---no marker\n",
    b"--- inline: 1\n",
    b"%YAML 1.2\n",
]

documents = st.lists(
    st.tuples(
        st.sampled_from(
            [b"---\n", b"---\r\n", b"--- # a comment\n", b"---  \n# Source: a/b.yaml\n"]
        ),
        st.binary(max_size=40),
        st.sampled_from(NASTY),  # only one: two together may form an invalid job
        st.binary(max_size=40),
    ).map(b"".join),
    max_size=4,
).map(lambda texts: b"".join(text if text.endswith(b"\n") else text + b"\n" for text in texts))


@given(documents, documents, st.binary(max_size=9))
@example(b"".join(b"---\n" + text for text in NASTY), b"", b"")
def test_nothing_before_or_after_a_job_changes(before, after, end):
    job = b"---\n" + JOB.encode()
    manifests = passed(job)

    assert before + manifests + after == passed(before + job + after)
    assert before + manifests + b"---\n" + end == passed(before + job + b"---\n" + end)


@pytest.mark.parametrize("text", NASTY[3:])
def test_a_stream_without_a_job_passes_through(text):
    assert text + b"---\na: 1" == passed(text + b"---\na: 1")


def test_a_large_object_that_mentions_a_job_passes_through():
    text = (
        b"apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nspec:\n  example: |"
    )
    text += b"\n    apiVersion: kubeflow.org/v1\n    kind: TFJob" + b"\n    x: y" * 200_000

    assert text == passed(text)


@pytest.mark.parametrize("ends", ["\n", "\r\n"])
def test_a_job_is_recognized_in_any_form_of_yaml(ends):
    plain = passed(JOB)
    ways = [
        JOB.replace("apiVersion: mlgen.dev/v1alpha1", "apiVersion:\n  'mlgen.dev/v1alpha1'"),
        f"--- # Helm\n{JOB}",
        f"%YAML 1.2\n---\n{JOB}",
        f"\ufeff{JOB}",
        JOB.replace("apiVersion: mlgen.dev/v1alpha1", 'apiVersion: "mlgen\\x2edev/v1alpha1"'),
        JOB.replace("apiVersion: mlgen.dev/v1alpha1", 'apiVersion: "mlgen.\\\n  dev\\/v1alpha1"'),
        JOB.replace("apiVersion: mlgen.dev/v1alpha1", "? apiVersion\n: >-\n  mlgen.dev/v1alpha1"),
        JOB.replace("apiVersion: mlgen.dev", '"api\\u0056ersion": &a mlgen.dev'),
        json.dumps(load(JOB)),
        json.dumps(load(JOB), indent=2),
    ]

    for way in ways:
        assert passed(way.replace("\n", ends)).removeprefix(b"%YAML 1.2" + ends.encode()) == plain


def test_options_are_those_of_render():
    words = ["--namespace", "vision", "--set", "spec.roles.main.replicas=3"]
    items = load_all(passed(JOB, *words))

    assert {"vision"} == {item["metadata"]["namespace"] for item in items}
    assert 3 == items[-1]["spec"]["completions"]


INVALID = {
    "helm-3": HELM_3.replace("main: {}", "mian: {replica: 1}").replace("pytorch,", "torch,"),
    "helm-4": HELM_4.replace("main: {}", "main: {replica: 1}"),
    "no-source": f"a: 1\n---\n{JOB.replace('main: {}', 'main: {replica: 1}')}",
    "two-of-one-name": f"{JOB}---\na: 1\n---\n# Source: shop/templates/more.yaml\n{JOB}",
    "no-yaml": f"---\n# Source: shop/templates/job.yaml\n{JOB}  x: [\n",
    "no-utf-8": f"---\n# Source: shop/templates/job.yaml\n{JOB}  x: ".encode() + b"\xff\n",
    "another-kind": JOB.replace("TrainingJob", "TrainingJbo"),
    "another-version": JOB.replace("v1alpha1", "v1"),
    "hook": HELM_4.replace("helm.sh/resource-policy: keep", "helm.sh/hook: pre-install").replace(
        "main: {}", "main: {}\n    peer: {}\n  successPolicy: {role: main}"
    ),
    "nothing": b"",
    "only-comments": "---\n# Source: shop/templates/job.yaml\n# none\n\n---\n",
}


@pytest.mark.parametrize("case", INVALID)
def test_with_any_problem_nothing_is_printed(case, message):
    code, out, err = run(INVALID[case])

    assert (1, b"") == (code, out)
    assert err == message


def test_a_hook_with_one_job_is_rendered():
    out = passed(HELM_4.replace("helm.sh/resource-policy: keep", "helm.sh/hook: pre-install"))
    job = next(i for i in load_all(out) if i["metadata"]["name"] == "bert-main")

    assert "pre-install" == job["metadata"]["annotations"]["helm.sh/hook"]
    assert "helm.sh" not in str(job["spec"])


def test_warnings_go_to_stderr():
    code, out, err = run((ROOT / "fixtures/tensorflow-estimator.yaml").read_text())

    assert 0 == code
    assert out.startswith(b"---\n")
    assert err.startswith("<stdin>:12:42: warning: ")


def shell(script, stdin=b""):
    command = f"{shlex.quote(sys.executable)} -m mlgen helm-post-render"
    script = script.replace("MLGEN", command)
    return subprocess.run(["sh", "-c", script], input=stdin, capture_output=True, check=False)


HELM = """
import subprocess, sys
command = [sys.executable, "-m", "mlgen", "helm-post-render", *sys.argv[1:]]
sys.exit(subprocess.run(command, stderr=subprocess.DEVNULL).returncode)
"""
"""Runs the plugin and discards its stderr, like Helm 4."""

BAD = JOB.replace("main: {}", "main: {replica: 1}").encode()


def helm(folder, *words, stdin=BAD, **env):
    env = {"XDG_CACHE_HOME": folder, "HELM_PLUGIN_NAME": "mlgen", **env}
    return subprocess.run(
        [sys.executable, "-c", HELM, *words],
        input=stdin,
        capture_output=True,
        check=False,
        env=os.environ | {name: str(value) for name, value in env.items()},
    )


def test_a_failure_is_shown_although_helm_4_discards_stderr(tmp_path):
    expected = run(BAD)[2].encode()

    done = helm(tmp_path)

    assert (1, b"", expected) == (done.returncode, done.stdout, done.stderr)
    assert expected == (tmp_path / "mlgen/last-error.txt").read_bytes()


def test_a_wrong_command_line_is_shown_although_helm_4_discards_stderr(tmp_path):
    done = helm(tmp_path, "--kube-version=1")

    assert (2, b"") == (done.returncode, done.stdout)
    assert b"expected a version from 1.31" in done.stderr
    assert done.stderr == (tmp_path / "mlgen/last-error.txt").read_bytes()


@pytest.mark.slow
def test_mlgen_log_names_the_file_with_the_last_failure(tmp_path):
    log = tmp_path / "log"
    log.write_text("the failure before this one, which was a longer text" * 99)

    helm(tmp_path, MLGEN_LOG=log)

    assert run(BAD)[2] == log.read_text()
    assert [log] == list(tmp_path.iterdir())


def test_the_file_with_the_last_failure_is_a_new_one_of_its_user(tmp_path):
    """An existing link is replaced, so that its target stays unchanged."""
    log = tmp_path / "mlgen/last-error.txt"
    log.parent.mkdir()
    log.symlink_to(tmp_path / "precious")

    report_failure("a\x1b[2J\nb", {"HELM_PLUGIN_NAME": "mlgen", "XDG_CACHE_HOME": str(tmp_path)})

    assert (r"a\x1b[2J" + "\nb\n", False) == (log.read_text(), (tmp_path / "precious").exists())
    assert 0o600 == stat.S_IMODE(log.lstat().st_mode)


def gangs(count):
    source = "---\n# Source: shop/templates/job.yaml\n"
    return "".join(source + ONE_OF_MANY.replace("NUMBER", str(each)) for each in range(count))


def stored(count, *words, before="", parent=("helm", "template"), **env):
    """Run mlgen as a child of a process with this name and these words."""
    command = shlex.join([sys.executable, "-m", "mlgen", "helm-post-render", *words])
    done = subprocess.run(
        [parent[0], "-c", f"{command}; exit $?", *parent[1:]],
        executable="/bin/sh",
        input=before + gangs(count),
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | env,
    )
    return done.returncode, done.stdout, done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("env", [{}, {"HELM_PLUGIN_NAME": "mlgen"}])
def test_23_supervised_jobs_fit_into_a_release(env):
    code, out, err = stored(23, parent=("helm", "install"), **env)

    assert (0, "") == (code, err)
    assert 23 == out.count("supervisor.pyz: ")


LIMIT = "the limit of a release with its chart is 1024 KiB"
WAYS = "set spec.helpers.supervisorImage or set HELM_DRIVER=sql [too-large]"


@pytest.mark.slow
def test_a_release_near_the_limit_is_reported():
    code, out, err = stored(26, parent=("helm", "upgrade"))

    assert (0, 26) == (code, out.count("supervisor.pyz: "))
    output = r"<stdin>: warning: the output with 26 jobs has (\d+) KiB as Helm stores it"
    ways = rf"install at most (\d+) of these jobs in a release, {re.escape(WAYS)}"
    match = re.fullmatch(rf"{output}, and {LIMIT}; {ways}\n", err)
    assert match, err
    assert int(match[2]) == 1024 * 26 // int(match[1])


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
@pytest.mark.parametrize(
    ("count", "env"),
    [(30, {}), (32, {"HELM_PLUGIN_NAME": "mlgen", "MLGEN_LOG": os.devnull})],
)
@pytest.mark.parametrize("command", [["helm", "install"], ["/a/helm3", "--debug", "upgrade", "-i"]])
def test_helm_does_not_get_more_than_it_can_store(count, env, command):
    code, out, err = stored(count, parent=command, **env)

    assert (1, "") == (code, out)
    assert err.startswith(f"<stdin>: the output with {count} jobs has 1")
    assert LIMIT in err


@pytest.mark.slow
def test_helm_4_sorts_objects_so_that_they_need_less():
    texts = [stored(40, **env)[2] for env in ({}, {"HELM_PLUGIN_NAME": "mlgen"})]
    sizes = [int(re.search(r"has (\d+) KiB", text)[1]) for text in texts]

    assert sizes[1] < sizes[0]


@pytest.mark.slow
@pytest.mark.parametrize("parent", [("helm", "template"), ("bash", "install")])
def test_output_that_is_perhaps_not_stored_is_only_warned_about(parent):
    code, out, err = stored(40, parent=parent)

    assert (0, 40) == (code, out.count("supervisor.pyz: "))
    assert err.startswith("<stdin>: warning: the output with 40 jobs has 1")
    assert re.search("; install at most 2[4-9] of these jobs in a release, ", err)
    assert 1 == stored(40, "--strict", parent=parent)[0]


@pytest.mark.slow
@pytest.mark.parametrize("driver", ["sql", "memory"])
def test_a_database_has_no_limit(driver):
    code, out, err = stored(30, parent=("helm", "install"), HELM_DRIVER=driver)

    assert (0, "") == (code, err)
    assert 30 == out.count("supervisor.pyz: ")


@pytest.mark.slow
def test_an_image_with_the_program_leaves_space_for_more_jobs():
    image = "--set=spec.helpers.supervisorImage=example/mlgen:1"
    assert (0, "") == stored(100, image, parent=("helm", "install"))[::2]


@pytest.mark.slow
def test_other_objects_leave_space_for_fewer_jobs():
    noise = base64.b64encode(hashlib.shake_256(b"a").digest(450_000)).decode()
    other = f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: a}}\nbinaryData: {{a: {noise}}}\n"

    err = stored(24, before=other)[2]

    assert re.search("; install at most 1[0-3] of these jobs in a release, ", err)


@pytest.mark.slow
def test_output_that_is_small_when_it_is_compressed_is_not_reported():
    other = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata:\n" + "  # same\n" * 200_000

    assert (0, "") == stored(1, before=other, parent=("helm", "install"))[::2]


def test_only_jobs_refuses_every_other_object(message):
    chart = f"---\n# Source: shop/templates/a.yaml\n# nothing\n{HELM_3}".encode()

    code, out, err = run(chart, "--only-jobs")

    assert (1, b"") == (code, out)
    assert err == message
    assert 0 == run(f"---\n# Source: shop/templates/job.yaml\n{JOB}".encode(), "--only-jobs")[0]


def test_standard_input_may_be_closed_or_too_large(monkeypatch):
    monkeypatch.setattr(files, "TEXT_BYTES", 10)
    code, out, err = run(JOB)
    monkeypatch.setattr(sys, "stdin", None)

    assert (1, b"", "too-large") == (code, out, err.rpartition("[")[2].strip("]\n"))
    with pytest.raises(MlgenError, match="standard input is closed"):
        next(files.standard_input())


TERMINAL = """
import os, pty, sys
pid, screen = pty.fork()
if pid == 0:
    os.dup2(os.open("job.yaml", os.O_RDONLY), 0)
    os.dup2(os.open("err", os.O_WRONLY | os.O_CREAT), 2)
    os.execv(sys.executable, [sys.executable, "-c", sys.argv[1]])
while True:
    try:
        sys.stdout.write(os.read(screen, 1000).decode())
    except OSError:
        break
"""
"""Run a program in a terminal, but with its stderr in a file."""


def test_a_failure_is_shown_on_the_terminal_if_stderr_of_helm_is_a_file(tmp_path):
    (tmp_path / "job.yaml").write_bytes(BAD)

    done = subprocess.run(
        [sys.executable, "-c", TERMINAL, HELM],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
        env=os.environ | {"TMPDIR": str(tmp_path), "HELM_PLUGIN_NAME": "mlgen"},
    )

    assert run(BAD)[2] == done.stdout
    assert "" == (tmp_path / "err").read_text()


@pytest.mark.slow
@pytest.mark.parametrize(("stdin", "caller"), [(JOB.encode(), "mlgen"), (BAD, "")])
def test_no_file_is_written_on_success_or_under_helm_3(stdin, caller, tmp_path):
    helm(tmp_path, stdin=stdin, HELM_PLUGIN_NAME=caller)

    assert [] == list(tmp_path.iterdir())


def test_a_closed_pipe_causes_no_error():
    text = b"---\na: b\n" * 20_000

    done = shell("MLGEN | head -c 20", text)

    assert (text[:20], b"") == (done.stdout, done.stderr)


@pytest.mark.slow
def test_100_mb_of_other_objects_use_little_memory():
    """The stream does not fit into the address space of the process."""
    lines = b"".join(b"  key%d: a value as long as values are\n" % n for n in range(2000))
    other = b"---\n# Source: shop/templates/config.yaml\nkind: ConfigMap\ndata:\n" + lines
    count = (50 << 20) // len(other) + 1
    job = b"---\n" + JOB.encode()
    expected = hashlib.sha256()
    for text in (*[other] * count, passed(job), *[other] * count):
        expected.update(text)
    command = f"ulimit -v {128 << 10}; exec {shlex.quote(sys.executable)} -m mlgen helm-post-render"
    found = hashlib.sha256()

    def feed(stream):
        with stream:
            for text in (*[other] * count, job, *[other] * count):
                stream.write(text)

    with subprocess.Popen(["sh", "-c", command], stdin=-1, stdout=-1) as process:
        feeder = threading.Thread(target=feed, args=[process.stdin])
        feeder.start()
        while text := process.stdout.read(1 << 20):
            found.update(text)
        feeder.join()

    assert (0, expected.digest()) == (process.returncode, found.digest())


def test_the_plugin_has_the_version_of_the_package():
    plugin = load((ROOT / "integrations/helm/plugin.yaml").read_text())

    assert __version__ == plugin["version"]
    assert [{"command": "mlgen", "args": ["helm-post-render"]}] == plugin["runtimeConfig"][
        "platformCommand"
    ]


def test_post_render_returns_parts_and_warnings():
    warned = (ROOT / "fixtures/tensorflow-estimator.yaml").read_bytes().splitlines(keepends=True)

    parts, warnings = post_render([b"a: 1\n", b"---\n", *warned], Options(namespace="ml"))

    assert b"".join(parts).startswith(b"a: 1\n---\n")
    assert ["warning" in str(warning) for warning in warnings] == [True]


@pytest.mark.parametrize(
    ("lines", "empty"),
    [([], True), ([b"---\n", b"# none\n", b"\n"], True), ([b"---\n", b"a: 1\n"], False)],
)
def test_an_empty_stream_is_an_error(lines, empty):
    if not empty:
        assert b"".join(post_render(lines, Options())[0]) == b"".join(lines)
        return
    with pytest.raises(MlgenError) as raised:
        post_render(lines, Options())
    assert ["empty"] == [problem.code for problem in raised.value.problems]


HOOK = JOB.replace("name: bert", "name: bert\n  annotations: {helm.sh/hook: pre-install}")


@pytest.mark.parametrize(
    ("job", "blocked"),
    [
        (JOB.replace("main: {}", "main: {}\n    peer: {}\n  successPolicy: {role: main}"), False),
        (HOOK, False),
        (HOOK.replace("main: {}", "main: {}\n    peer: {}\n  successPolicy: {role: main}"), True),
    ],
)
def test_a_hook_with_a_job_before_another_object_is_an_error(job, blocked):
    code, _, err = run(job)

    assert (code, "helm.sh/hook: Helm waits for Job bert-main" in err) == (int(blocked), blocked)


@pytest.mark.parametrize("environ", [{}, {"HELM_PLUGIN_NAME": ""}])
def test_nothing_is_reported_outside_of_helm_4(environ, tmp_path):
    report_failure("wrong", environ | {"MLGEN_LOG": str(tmp_path / "log")})

    assert [] == list(tmp_path.iterdir())

"""The result of `mlgen diff` for each change, compared with a real API server."""

import json
import re

import pytest
import yaml
from admission import rendered
from click.testing import CliRunner
from parts.kubernetes.edits import (
    ACCEPTED,
    FIELDS_OF_ERRORS,
    MAIN,
    NO_CHANGE,
    OBJECTS,
    REJECTED,
    RESOURCES,
    SCHEDULING,
    UNSURE,
    apps,
    build,
    edited,
    job,
    named,
    service,
)
from support import FIXTURES, stem

from mlgen.cli import main
from mlgen.kubernetes.names import LAST_APPLIED
from mlgen.kubernetes.versions import MUTABLE_WHILE_SUSPENDED


@pytest.fixture(scope="module")
def there(shared_namespace):
    """A namespace with all of OBJECTS, and a Job that was suspended after it had started."""
    stdin = yaml.safe_dump_all([*OBJECTS, job("started")])
    shared_namespace.kubectl("apply", "-f", "-", stdin=stdin)
    status = "jsonpath={.status.startTime}"
    shared_namespace.until(
        "the Job started", lambda: shared_namespace.kubectl("get", "job", "started", "-o", status)
    )
    shared_namespace.kubectl("patch", "job", "started", "-p", '{"spec":{"suspend":true}}')
    return shared_namespace


@pytest.fixture(scope="module")
def saved(there, tmp_path_factory):
    """Folder with the output of `kubectl get -o yaml` for each of OBJECTS."""
    folder = tmp_path_factory.mktemp("saved")
    stdin = yaml.safe_dump_all(OBJECTS)
    live = yaml.safe_load(there.kubectl("get", "-f", "-", "-o", "yaml", stdin=stdin))
    for item in live["items"]:
        name = f"{item['kind']} {item['metadata']['name']}.yaml"
        (folder / name).write_text(yaml.safe_dump(item))
    return folder


@pytest.fixture(scope="module")
def refused(there, tmp_path_factory):
    """Function that returns the fields for which the API server rejects a change.

    One kubectl checks all changes, each in its own file, because errors name the file.
    """
    folder = tmp_path_factory.mktemp("asked")
    cases = [*ACCEPTED, *REJECTED, *UNSURE, *(("Job waiting", edits) for edits in SCHEDULING)]
    fields_by_file = {}
    for number, (name, edits, *_) in enumerate(cases):
        file = folder / f"{number:03}.json"
        file.write_text(json.dumps(edited(named(name), edits)))
        fields_by_file[str(file)] = []
    accepted, errors = there.stdout_and_stderr("apply", "--dry-run=server", "-f", str(folder))
    for error in errors.split("Error from server")[1:]:
        (file,) = set(re.findall(r'for: "(.*?)"', error))
        fields_by_file[file] = re.findall(r"(?:invalid: \[?|, )([\w.\[\]]+): (?:Inv|Forb)", error)
        assert fields_by_file[file], error
    assert list(fields_by_file.values()).count([]) == len(accepted.splitlines())
    fields_by_case = {
        repr(case[:2]): fields for case, fields in zip(cases, fields_by_file.values(), strict=True)
    }
    return lambda name, edits: fields_by_case[repr((name, edits))]


@pytest.fixture(scope="module")
def changed(there):
    """Function that returns an object as the API server would store it after a change."""
    items = [edited(named(name), edits) for name, edits in NO_CHANGE]
    stdin = json.dumps({"apiVersion": "v1", "kind": "List", "items": items})
    printed = there.kubectl("apply", "--dry-run=server", "-o", "json", "-f", "-", stdin=stdin)
    objects_by_case = dict(zip(map(repr, NO_CHANGE), json.loads(printed)["items"], strict=True))
    return lambda name, edits: objects_by_case[repr((name, edits))]


@pytest.fixture
def diff(tmp_path, monkeypatch, environment, version):
    """Run `mlgen diff`; return the exit status and the first line of its output."""
    for name in ("PATH", "KUBECONFIG"):
        monkeypatch.setenv(name, environment[name])

    def diff(*words):
        written = []
        for number, word in enumerate(words):
            written.append(str(word))
            if isinstance(word, dict):
                (tmp_path / f"{number}.yaml").write_text(json.dumps(word))
                written[-1] = str(tmp_path / f"{number}.yaml")
        result = CliRunner().invoke(main, ["diff", "--kube-version", str(version), *written])
        assert result.exit_code in (0, 3), result.output
        return result.exit_code, result.stdout.partition("\n")[0]

    return diff


def case_id(value):
    if isinstance(value, tuple):
        return f"{value[0]} {' '.join(value[1])}"
    return value if isinstance(value, str) else " ".join(value)


@pytest.mark.parametrize(("name", "edits"), ACCEPTED, ids=case_id)
def test_a_change_reported_as_accepted_is_accepted(name, edits, refused, saved, diff):
    new = edited(named(name), edits)

    assert [] == refused(name, edits)
    for old in (named(name), saved / f"{name}.yaml"):
        status, head = diff(old, new)
        assert (3, True) == (status, head.startswith(f"{name}: changed")), head


@pytest.mark.parametrize("case", REJECTED, ids=case_id)
def test_a_change_reported_as_rejected_is_rejected_for_the_same_field(case, refused, saved, diff):
    name, edits, field = case
    new = edited(named(name), edits)

    expected = {field, field.rpartition(".")[0], FIELDS_OF_ERRORS.get((name, field))}
    assert expected & set(refused(name, edits))
    for old in (named(name), saved / f"{name}.yaml"):
        status, head = diff(old, new)
        assert (3, True) == (
            status,
            head.startswith(f"{name}: will be rejected by the API server: {field} "),
        )


@pytest.mark.parametrize(("name", "edits"), NO_CHANGE, ids=case_id)
def test_an_edit_reported_as_no_change_changes_nothing(name, edits, changed, saved, diff):
    before = yaml.safe_load((saved / f"{name}.yaml").read_text())
    after = changed(name, edits)

    for item in (before, after):
        for volatile in ("annotations", "generation", "managedFields", "namespace"):
            item["metadata"].pop(volatile, None)
        item.pop("status", None)
    assert before == after
    for old in (named(name), saved / f"{name}.yaml"):
        assert (0, "") == diff(old, edited(named(name), edits))


@pytest.mark.parametrize("edits", SCHEDULING, ids=case_id)
def test_placement_may_change_until_a_suspended_job_starts(edits, refused, saved, diff):
    waiting = edited(named("Job waiting"), edits)

    assert [] == refused("Job waiting", edits)
    assert (3, "Job waiting: changed") == diff(saved / "Job waiting.yaml", waiting)
    unsure = "Job waiting: may be rejected by the API server: spec.template is immutable, unless "
    assert diff(named("Job waiting"), waiting)[1].startswith(unsure)


@pytest.mark.parametrize("edits", [*SCHEDULING, RESOURCES], ids=case_id)
def test_placement_and_resources_may_change_when_a_job_is_suspended_again_since_1_36(
    edits, there, diff, version
):
    changed = edited(job("started", suspend=True), edits)
    stdin = yaml.safe_dump(changed)

    errors = there.stdout_and_stderr("apply", "--dry-run=server", "-f", "-", stdin=stdin)[1]

    _, head = diff("--live", "-n", there.name, changed)
    _, _, effect = head.partition(f"Job {there.name}/started: ")
    if version >= MUTABLE_WHILE_SUSPENDED:
        assert ("", "changed") == (errors, effect)
    else:
        assert "spec.template: Invalid value" in errors
        assert "will be rejected by the API server: spec.template is immutable" == effect


@pytest.mark.parametrize("case", UNSURE, ids=case_id)
def test_a_change_that_depends_on_the_cluster_is_reported_as_uncertain(case, refused, saved, diff):
    """With the output of `kubectl get`, or with --live, the answer may be certain."""
    name, edits, known = case
    new = edited(named(name), edits)

    assert diff(named(name), new)[1].startswith(f"{name}: may be rejected by the API server: ")
    assert known == "may be rejected by the API server: " or (known == "changed") != bool(
        refused(name, edits)
    )
    assert diff(saved / f"{name}.yaml", new)[1].startswith(f"{name}: {known}")


@pytest.mark.parametrize("way", [(), ("--server-side",)], ids=["client", "server"])
def test_live_comparison_predicts_what_kubectl_apply_does(way, namespace, diff):
    old = [job("a", suspend=True), apps("StatefulSet", "b", serviceName="b"), service("c")]
    namespace.kubectl("apply", *way, "-f", "-", stdin=yaml.safe_dump_all(old))
    live = ("--live", "-n", namespace.name)

    assert [(0, "")] * 3 == [diff(*live, item) for item in old]

    new = {
        "kind": "List",
        "apiVersion": "v1",
        "items": [
            edited(old[0], {f"{MAIN}.image": "busybox:1.37"}),
            edited(old[1], {"spec.replicas": 0, "spec.minReadySeconds": 7}),
            edited(old[2], {"spec.ports": [{"name": "http", "port": 81}]}),
            build("v1", "ConfigMap", "d"),
        ],
    }
    status, head = diff(*live, new)
    assert (3, True) == (
        status,
        head.startswith(f"Job {namespace.name}/a: will be rejected by the API server"),
    )

    errors = namespace.stdout_and_stderr("apply", *way, "-f", "-", stdin=yaml.safe_dump(new))[1]

    assert re.search(r"spec\.template(\.spec)?: Invalid value", errors)
    assert 7 == namespace.get("statefulset", "b")["spec"]["minReadySeconds"]
    assert 81 == namespace.get("service", "c")["spec"]["ports"][0]["port"]
    assert [(0, "")] * 3 == [diff(*live, item) for item in new["items"][1:]]


@pytest.mark.usefixtures("pod_groups")
@pytest.mark.parametrize("file", FIXTURES, ids=stem)
def test_no_change_is_reported_for_a_fixture_that_is_applied(file, server, version, diff):
    """Covers the API server's defaults for every field that mlgen renders."""
    items = rendered(file.name, file.read_text(), version)
    stored = [server.create(applied(item))[1] for item in items]

    old, new = ({"apiVersion": "v1", "kind": "List", "items": each} for each in (stored, items))
    assert (0, "") == diff(old, new)


def applied(item):
    """Return an object with the annotation that `kubectl apply` adds."""
    metadata = item["metadata"]
    annotations = {**metadata.get("annotations", {}), LAST_APPLIED: json.dumps(item)}
    return {**item, "metadata": {**metadata, "annotations": annotations}}

"""Objects that look like jobs, but that only their operators can run."""

import pytest
from click.testing import CliRunner

from mlgen import MlgenError, validate
from mlgen.cli import main

SPARK = "apiVersion: sparkoperator.k8s.io/v1beta2\nkind: SparkApplication\nmetadata: {name: a}\n"


def item(version, kind):
    return f"apiVersion: {version}\nkind: {kind}\nmetadata: {{name: a}}\n"


def warnings(*texts):
    return [str(warning) for warning in validate("---\n".join(texts)).warnings]


@pytest.mark.parametrize(
    ("version", "kind", "text"),
    [
        ("sparkoperator.k8s.io/v1beta2", "SparkApplication", "the Spark operator can run it [not-"),
        ("sparkoperator.k8s.io/v1beta2", "ScheduledSparkApplication", "the Spark operator can"),
        (
            "leaderworkerset.x-k8s.io/v1",
            "LeaderWorkerSet",
            "for a program that ends, write a JobSet, or a job file",
        ),
        (
            "example.com/v1",
            "DreamJob",
            "only its operator can run it; to run without an operator, write a job fil",
        ),
    ],
)
def test_a_kind_that_trains_is_warned_of(version, kind, text):
    (warning,) = warnings(item(version, kind))

    assert warning.startswith(f"<text>:2:7: warning: kind: mlgen passes the {kind} through")
    assert text in warning


JOB = """
apiVersion: mlgen.dev/v1alpha1
kind: TrainingJob
metadata: {name: a}
spec:
  framework: pytorch
  image: a/a
  env: {LR: {valueFrom: {%sKeyRef: {name: hub, key: lr%s}}}}
  roles: {worker: {}}
"""


@pytest.mark.parametrize(
    ("kind", "data", "optional", "expected"),
    [
        ("configMap", "data: {lr: x}", "", ""),
        ("configMap", "data: {rl: x}", "", "the ConfigMap hub has no key lr; use rl [reference]"),
        ("configMap", "data: {rl: x}", ", optional: true", ""),
        ("configMap", "metadata: {name: b}\ndata: {rl: x}", "", ""),
        ("configMap", "metadata: {name: hub, namespace: c}\ndata: {rl: x}", "", ""),
        ("configMap", "immutable: true", "", ""),
        ("secret", "data: {lr: eA==}", "", ""),
        ("secret", "stringData: {lr: hf_x}", "", ""),
        ("secret", "stringData: {token: hf_x}", "", "the Secret hub has no key lr; use token"),
        ("secret", "data: {lr: hf_x}", "", "the value of lr is not base64, so the API server rej"),
        ("secret", "data: {lr: $TOKEN}", "", ""),
    ],
)
def test_keys_that_another_document_lacks(kind, data, optional, expected):
    name = "" if "metadata" in data else "metadata: {name: hub}\n"
    other = f"apiVersion: v1\nkind: {kind[0].upper()}{kind[1:]}\n{name}{data}\n"
    try:
        found = warnings(JOB % (kind, optional), other)
    except MlgenError as error:
        found = [str(problem) for problem in error.problems]

    assert expected in found[0] if expected else not found, found


@pytest.mark.parametrize(
    ("version", "kind"),
    [
        ("batch/v1", "Job"),
        ("batch/v1", "CronJob"),
        ("keda.sh/v1alpha1", "ScaledJob"),
        ("ray.io/v1", "RayService"),
        ("argoproj.io/v1alpha1", "Workflow"),
        ("v1", "Secret"),
    ],
)
def test_other_kinds_pass_through_without_a_word(version, kind):
    assert [] == warnings(item(version, kind))


def test_the_items_of_a_list_are_looked_at():
    text = (
        "apiVersion: v1\nkind: List\nitems:\n- 1\n"
        "- {apiVersion: a.io/v1, kind: DreamJob, metadata: {name: a}}\n"
    )

    (warning,) = warnings(text)

    assert warning.startswith("<text>:5:31: warning: items[1].kind: mlgen passes the DreamJob")


@pytest.mark.parametrize(
    ("spec", "count"),
    [
        ("{group: sparkoperator.k8s.io, names: {kind: SparkApplication}}", 0),
        ("{group: sparkoperator.k8s.io, names: {kind: Spark}}", 1),
        ("{group: sparkoperator.k8s.io, names: []}", 1),
        ("[]", 1),
    ],
)
def test_a_set_that_defines_the_kind_brings_its_operator(spec, count):
    definition = item("apiextensions.k8s.io/v1", "CustomResourceDefinition") + f"spec: {spec}\n"

    assert count == len(warnings(SPARK, definition)) == len(warnings(definition, SPARK))


JOBSET = """
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata: {name: ds%s}
spec:
  replicatedJobs:
    - name: w
      template: {spec: {template: {spec: {containers: [{name: w, image: a/a}]}}}}
"""
HEADLESS = """
apiVersion: v1
kind: Service
metadata: {name: ds%s}
spec: {clusterIP: None, selector: {%s: ds}}
"""


@pytest.mark.parametrize("is_first", [True, False])
@pytest.mark.parametrize("namespaces", [("", ""), (", namespace: ml", ""), ("", ", namespace: ml")])
@pytest.mark.parametrize("key", ["jobset.sigs.k8s.io/jobset-name", "mlgen.dev/job"])
def test_a_job_replaces_a_headless_service_of_its_name(is_first, namespaces, key):
    texts = [HEADLESS % (namespaces[0], key), JOBSET % namespaces[1]]
    text = "---".join(texts if is_first else texts[::-1])

    done = CliRunner().invoke(main, ["render", "-"], input=text)

    assert done.exit_code == 0
    assert done.stdout.count("kind: Service\n") == 1
    assert "selector: {mlgen.dev/job: ds}" in done.stdout
    assert "the Service ds is left out: the job ds has a headless Service" in done.stderr


@pytest.mark.parametrize("is_first", [True, False])
def test_a_headless_service_of_another_namespace_is_kept(is_first):
    key = "jobset.sigs.k8s.io/jobset-name"
    texts = [HEADLESS % (", namespace: a", key), JOBSET % ", namespace: b"]

    done = CliRunner().invoke(
        main, ["render", "-"], input="---".join(texts if is_first else texts[::-1])
    )

    assert done.exit_code == 0
    assert done.stdout.count("kind: Service\n") == 2
    assert "left out" not in done.stderr


def test_a_service_for_other_pods_collides_with_the_job():
    text = HEADLESS % ("", "app") + "---" + JOBSET % ""

    done = CliRunner().invoke(main, ["render", "-"], input=text.replace("app: ds", "app: web"))

    assert done.exit_code == 1
    assert "Service ds would be rendered twice" in done.stderr

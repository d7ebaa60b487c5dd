"""Values that the API server rejects. parts/kubernetes/test_admission.py compares a real one."""

import pytest
from admission import rejected_values
from rejected import OBJECTS, rejected
from support import FILES, load_all, rendered_once, stem

from mlgen.kubernetes import validation
from mlgen.kubernetes.validation.rows import image
from mlgen.kubernetes.versions import DEFAULT, SUPPORTED, KubeVersion
from mlgen.problems import dotted


def lines(item, version=DEFAULT):
    return [
        f"{dotted(v.path)}: {v.message}; {v.hint} [{v.code}]"
        for v in rejected_values(item, version)
    ]


def test_rejected_values(message):
    text = "\n".join(
        "\n  ".join([title, *(line[:200] for line in lines(item))]) for title, item in rejected()
    )

    assert text == message


@pytest.mark.parametrize("kind", OBJECTS)
def test_the_objects_are_valid_otherwise(kind):
    version, content = OBJECTS[kind]

    assert [] == lines({"apiVersion": version, "kind": kind, "metadata": {"name": "a"}, **content})


@pytest.mark.parametrize("file", FILES[::15], ids=stem)
def test_fixtures_break_no_rule_in_any_version(file):
    objects = [item for item in load_all(rendered_once(file)) if item]

    for version in (SUPPORTED[0], SUPPORTED[-1]):
        found = [str(v) for item in objects for v in validation.broken_rules(item, version)]
        assert [] == found


def job(**pod):
    spec = {"restartPolicy": "Never", "containers": [{"name": "main", "image": "a"}], **pod}
    template = {"spec": spec}
    return {"kind": "Job", "metadata": {"name": "a"}, "spec": {"template": template}}


def main(**fields):
    return {"containers": [{"name": "main", "image": "a", **fields}]}


def restarts(*rules, policy="Never"):
    """Return the fields of a container with restart rules, each with an action and exit codes."""
    codes = [{"operator": "In", "values": values} for _, values in rules]
    pairs = zip(rules, codes, strict=True)
    listed = [{"action": action, "exitCodes": code} for (action, _), code in pairs]
    return {"restartPolicy": policy, "restartPolicyRules": listed}


FROM_FILE = [
    {"name": "A", "valueFrom": {"fileKeyRef": {"volumeName": "a", "path": "a.env", "key": "A"}}}
]


def sidecar(**fields):
    return {"initContainers": [{"name": "a", "image": "a", "restartPolicy": "Always", **fields}]}


@pytest.mark.parametrize("volume", [{"name": "a"}, {"name": "a", "emptyDir": {}}])
def test_variables_may_come_from_a_file_in_an_empty_dir(volume):
    assert [] == lines(job(**main(env=FROM_FILE), volumes=[volume]), SUPPORTED[-1])


@pytest.mark.parametrize(
    ("item", "since"),
    [
        (job(**main(env=[{"name": "1 + 1"}])), (1, 32)),
        (job(**main(lifecycle={"preStop": {"sleep": {"seconds": 0}}})), (1, 33)),
        (job(dnsConfig={"searches": [".", "_a.b_c"]}), (1, 33)),
        (job(**main(restartPolicy="OnFailure")), (1, 35)),
    ],
)
def test_a_rule_is_relaxed_in_a_later_version(item, since):
    accepted = [v for v in SUPPORTED if not list(validation.broken_rules(item, v))]

    assert [version for version in SUPPORTED if version >= since] == accepted


@pytest.mark.parametrize(
    ("item", "since"),
    [
        (job(resources={"requests": {"nvidia.com/gpu": 1}}), (1, 34)),
        (job(**main(restartPolicyRules=[{"action": "Stop"}])), (1, 35)),
        (job(**sidecar(**restarts(("Stop", [1]), policy="Always"))), (1, 35)),
        (job(hostnameOverride="a/b"), (1, 35)),
        (job(hostnameOverride="a" * 65), (1, 35)),
        (job(hostnameOverride="a", hostNetwork=True), (1, 35)),
        (job(hostnameOverride="a", setHostnameAsFQDN=True), (1, 35)),
        (job(**main(env=FROM_FILE)), (1, 35)),
        (
            job(**main(env=FROM_FILE), volumes=[{"name": "a", "secret": {"secretName": "a"}}]),
            (1, 35),
        ),
    ],
)
def test_a_rule_begins_with_a_field(item, since):
    rejected_by = [v for v in SUPPORTED if list(validation.broken_rules(item, v))]

    assert [version for version in SUPPORTED if version >= since] == rejected_by


def test_only_1_34_accepts_an_unknown_restart_policy_of_an_init_container():
    item = job(initContainers=[{"name": "a", "image": "a", "restartPolicy": "Often"}])

    accepted = [v for v in SUPPORTED if not list(validation.broken_rules(item, v))]

    assert accepted == [KubeVersion(1, 34)]


RULES = {
    "a rule": (main(**restarts(("Restart", [1]))), []),
    "a rule for all containers": (main(**restarts(("RestartAllContainers", [1]))), [35]),
    "a rule of a sidecar": (sidecar(**restarts(("Restart", [1]), policy="Always")), [35]),
    "too many rules": (main(**restarts(*[("Restart", [1])] * 21)), [35, 36, 37]),
    "too many exit codes": (main(**restarts(("Restart", [1] * 256))), [35, 36, 37]),
}


@pytest.mark.parametrize("name", RULES)
def test_restart_rules(name):
    pod, expected = RULES[name]
    versions = [KubeVersion(1, minor) for minor in (35, 36, 37)]

    assert expected == [v.minor for v in versions if list(validation.broken_rules(job(**pod), v))]


def test_a_reference_to_an_image():
    rows = [
        "a",
        "a:b",
        "a/b/c:1.2",
        "localhost/a",
        "localhost:5000/a_b__c--d.e:x_Y-1.2",
        "Registry/a",
        "registry.example.com:443/a@sha256:" + "0" * 64,
        "[::1]:5000/a:latest",
        "a:b@sha256:" + "f" * 64,
    ]

    assert [[] for reference in rows] == [list(image((), reference)) for reference in rows]


def test_what_is_no_reference_to_an_image():
    rows = [
        ("A/b/C", "use lowercase letters in the name"),
        ("f" * 64, "write NAME@sha256:DIGEST"),
        ("http://a/b", "remove http://"),
        ("a:$TAG", "mlgen does not fill in placeholders"),
        ("a b", "remove the spaces"),
        ("a:", "write a reference such as"),
        ("a..b", "write a reference such as"),
        ("a@b", "write a reference such as"),
        ("a/" + "b" * 254, "write a reference such as"),
        ("-a.b/c", "write a reference such as"),
    ]

    for reference, hint in rows:
        (violation,) = image((), reference)

        assert violation.hint.startswith(hint)


def test_rules_pass_over_values_of_the_wrong_type():
    for version in (KubeVersion(1, 31), DEFAULT):
        for kind in OBJECTS:
            for odd in (None, 1, "a", [], [1], {"a": 1}, True):
                list(validation.broken_rules({"kind": kind, "metadata": odd, "spec": odd}, version))
                item = {"kind": kind, "spec": {"template": {"spec": odd}, "selector": odd}}
                list(validation.broken_rules(item, version))

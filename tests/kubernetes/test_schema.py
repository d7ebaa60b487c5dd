"""Structure checks are as strict as the API server, which has checked the same values."""

import json

import pytest
from jsonschema import Draft7Validator
from support import load

from mlgen.kubernetes.schema import broken_structure, definitions, has_kind, reference
from mlgen.kubernetes.versions import DEFAULT, KubeVersion

EDITORS = {
    "definitions": definitions("PodTemplateSpec", DEFAULT),
    "allOf": [reference("PodTemplateSpec")],
}


def found(text, kind="PodTemplateSpec", version=DEFAULT, **options):
    """Each violation as one line; the path with dots."""
    return [
        f"{'.'.join(map(str, item.path))}: {item.message}; {item.hint} [{item.code}]"
        for item in broken_structure(kind, load(text), version, **options)
    ]


UNKNOWN = {
    "spec: {priorityClass: high}": 'did you mean "priorityClassName"?',
    "spec: {imagePullPolicy: Always}": "move it to template.spec.containers[]",
    "spec: {comand: [a]}": 'did you mean "command" in template.spec.containers[]?',
    "spec: {metadata: {}}": "move it to template",
    "spec: {containers: [{name: a, tolerations: []}]}": "move it to template.spec",
    "spec: {containers: [{name: a, envv: []}]}": 'did you mean "env"?',
    "spec: {containers: [{name: a, runAsUser: 1}]}": (
        "move it to template.spec.containers[].securityContext"
    ),
    "spec: {containers: [{name: a, securityContext: {fsGroup: 1}}]}": (
        "move it to template.spec.securityContext"
    ),
    "spec: {containers: [{name: a, resources: {reqests: {}}}]}": 'did you mean "requests"?',
    "spec: {containers: [{name: a, resources: {nvidia.com/gpu: 1}}]}": (
        "write amounts under requests or limits"
    ),
    "spec: {containers: [{name: a, envFrom: [{vault: x}]}]}": (
        "use one of: configMapRef, prefix, secretRef"
    ),
    "spec: {fsType: ext4}": "remove it",
    "spec: {zebra: 1}": "remove it",
    "containers: []": "move it to template.spec",
    "image: x": "move it to template.spec.containers[]",
}


def test_an_unknown_field_is_misspelt_or_misplaced():
    for text, end in UNKNOWN.items():
        (line,) = found(text, patch=True)

        assert line.endswith(f"; {end} [unknown-field]")
        assert not Draft7Validator(EDITORS).is_valid(load(text))


CONTAINER = "spec: {containers: [{name: a, %s}]}"
POD = "spec: {%s}"

TYPES = {
    POD % "imagePullSecrets: [regcred]": "write {name: regcred}",
    POD % "imagePullSecrets: regcred": "write [{name: regcred}]",
    POD % "tolerations: {key: a}": "start each item with a dash",
    POD % "nodeSelector: [a=b, c=d]": "write {a: b, c: d}",
    POD % "nodeSelector: [{a: b}]": "remove the dashes",
    POD % "nodeSelector: {a: 1}": "quote it: '1'",
    POD % "hostNetwork: 'true'": "remove the quotes",
    POD % "priority: '5'": "remove the quotes",
    POD % "priority: five": "",
    POD % "terminationGracePeriodSeconds: 30s": "write 30",
    POD % "terminationGracePeriodSeconds: 5m": "write 300",
    POD % "terminationGracePeriodSeconds: '1:00:00'": "write 3600",
    POD % "priority: 5.5": "",
    POD % "priority: true": "",
    POD % "affinity: [{nodeAffinity: {}}]": "remove the dash",
    POD % "affinity: true": "",
    POD % "volumes: [{name: v, persistentVolumeClaim: data}]": "write {claimName: data}",
    POD % "volumes: [{name: v, secret: keys}]": "write {secretName: keys}",
    POD % "volumes: [{name: v, hostPath: /data}]": "write {path: /data}",
    CONTAINER % "ports: [80]": "write {containerPort: 80}",
    CONTAINER % "ports: 80": "write [{containerPort: 80}]",
    CONTAINER % "env: {LR: 1e-5, A: b}": 'write [{name: LR, value: "1e-5"}]',
    CONTAINER % "env: {A: {valueFrom: {}}}": "write [{name: A, valueFrom: {}}]",
    CONTAINER % "env: {A: 5}": 'write [{name: A, value: "5"}]',
    CONTAINER % "env: [A=b]": "write {name: A, value: b}",
    CONTAINER % "env: [A]": "write {name: A}",
    CONTAINER % "env: [{name: A, value: {b: c}}]": "",
    CONTAINER % "envFrom: [keys]": "write {secretRef: {name: keys}}",
    CONTAINER % "volumeMounts: ['data:/data']": "write {name: data, mountPath: /data}",
    CONTAINER % "volumeMounts: [data]": "",
    CONTAINER % "command: python train.py": "write [python, train.py]",
    CONTAINER % 'command: "it\'s"': 'write ["it\'s"]',
    CONTAINER % "args: [1]": "quote it: '1'",
    CONTAINER % "args: 1": 'write ["1"]',
    CONTAINER % "image: {a: b}": "",
    POD % "securityContext: {supplementalGroups: 5}": "write [5]",
    CONTAINER % "image: [a]": "write a",
    CONTAINER % "resources: {limits: {cpu: true}}": "",
    CONTAINER % "livenessProbe: {httpGet: {port: 8.5}}": "",
}


def test_a_wrong_type_has_its_cure():
    for text, end in TYPES.items():
        (line,) = found(text, patch=True)

        assert line.endswith(f"; {end} [wrong-type]")
        assert not Draft7Validator(EDITORS).is_valid(load(text))


VALUES = {
    POD % "priority: 3000000000": "expected an integer up to 2147483647, got the number 3000000000",
    CONTAINER % "resources: {limits: {memory: 8GB}}": '"8GB" is not a quantity',
    "metadata: {creationTimestamp: '2026'}": '"2026" is not a time',
}


@pytest.mark.parametrize("text", VALUES)
def test_a_value_must_be_one_that_can_be_decoded(text):
    (line,) = found(text, patch=True)

    assert f": {VALUES[text]};" in line
    assert line.endswith("[bad-value]")


def test_binary_data_is_base64():
    assert [] == found("binaryData: {a: aGk=, b: ''}", "ConfigMap")
    assert ["binaryData.a: expected text in base64;  [bad-value]"] == found(
        "binaryData: {a: x}", "ConfigMap"
    )


@pytest.mark.parametrize(
    "text",
    [
        "{}",
        "metadata: {creationTimestamp: null, labels: {a: null}}",
        "metadata: {creationTimestamp: '2026-01-31T12:00:00Z'}",
        "spec: {priority: null, terminationGracePeriodSeconds: 5.0, nodeSelector: null}",
        "spec: {containers: [{name: a, args: [null], livenessProbe: {httpGet: {port: http}}}]}",
        "spec: {containers: [{name: a, livenessProbe: {httpGet: {port: 80}}}]}",
        "spec: {containers: [{name: a, resources: {limits: {cpu: 1.5, memory: ' 8Gi '}}}]}",
        "spec: {containers: [{$patch: delete, name: a}, {$patch: replace}]}",
        "spec: {nodeSelector: {$patch: replace, a: b}, volumes: [{name: v, $retainKeys: [name]}]}",
    ],
)
def test_what_the_api_server_accepts_in_a_patch_is_accepted(text):
    assert [] == found(text, patch=True)
    assert Draft7Validator(EDITORS).is_valid(load(text))


UNSUPPORTED = "is not supported; use $patch or $retainKeys [unknown-field]"

DIRECTIVES = {
    "spec: {$patch: remove}": (
        'spec.$patch: unknown value "remove"; use one of: replace, delete [unknown-value]'
    ),
    "spec: {nodeSelector: {$patch: 1}}": (
        "spec.nodeSelector.$patch: unknown value 1; use one of: replace, delete [unknown-value]"
    ),
    "spec: {$setElementOrder/volumes: []}": (
        f"spec.$setElementOrder/volumes: $setElementOrder/volumes {UNSUPPORTED}"
    ),
    "spec: {$retainKeys: [1]}": (
        "spec.$retainKeys.0: expected a string, got the number 1; quote it: '1' [wrong-type]"
    ),
    "spec: {os: [{$patch: replace}]}": (
        'spec.os: expected a mapping, got the list [{"$patch": "replace"}]; remove the dash '
        "[wrong-type]"
    ),
    "spec: {readinessGates: [{$patch: replace}]}": (
        'spec.readinessGates.0.$patch: unknown field "$patch"; use conditionType [unknown-field]'
    ),
    "spec: {volumes: [{emptyDir: {}}]}": (
        'spec.volumes.0: field "name" is missing;  [missing-field]'
    ),
}


@pytest.mark.parametrize("text", DIRECTIVES)
def test_directives_of_a_patch(text):
    """Only items of lists that merge by a key can have a directive."""
    assert [DIRECTIVES[text]] == found(text, patch=True)


def test_a_whole_object_has_the_required_fields():
    text = "status: {a: b}\nspec: {template: {spec: {containers: [null, {name: a}]}}}"

    assert ['spec.template.spec.containers.0: field "name" is missing;  [missing-field]'] == found(
        text, "Job"
    )
    assert [': field "template" is missing;  [missing-field]'] == found("{}", "JobSpec")


def test_a_field_of_another_version_is_named_with_it():
    text = "spec: {hostnameOverride: a, workloadRef: {}}"

    (*_, line) = lines = found(text, version=KubeVersion(1, 31), patch=True)
    assert len(lines) == 2
    assert line == (
        "spec.workloadRef: workloadRef requires Kubernetes 1.35, not 1.31; "
        "remove it, or set --kube-version 1.35 [unknown-field]"
    )
    assert [
        "spec.workloadRef: workloadRef was removed after Kubernetes 1.35; remove it [unknown-field]"
    ] == found(text, version=KubeVersion(1, 37), patch=True)


def test_a_later_field_may_be_misplaced():
    """Pods as a whole have resources since Kubernetes 1.32."""
    (line,) = found("spec: {resources: {}}", version=KubeVersion(1, 31), patch=True)

    assert line == (
        "spec.resources: resources requires Kubernetes 1.32, not 1.31; "
        "move it to template.spec.containers[], or set --kube-version 1.32 [unknown-field]"
    )


def test_a_value_is_repeated_as_written():
    texts = {("spec", "nodeSelector", "a"): "1e-5"}
    (line,) = found("spec: {nodeSelector: {a: 0.00001}}", patch=True, texts=texts)

    assert line.endswith("expected a string, got the number 1e-5; quote it: '1e-5' [wrong-type]")


def test_values_of_other_types_than_objects_are_checked():
    assert ['0.efect: unknown field "efect"; did you mean "effect"? [unknown-field]'] == found(
        "[{efect: NoSchedule}]", "[Toleration]"
    )
    assert [": expected a mapping, got null;  [wrong-type]"] == found("null")
    assert has_kind("Job")
    assert not has_kind("PodGroup")


def test_the_schema_for_editors_refers_to_nothing_else():
    text = json.dumps(EDITORS)

    names = {item.split('"')[0] for item in text.split('"#/definitions/')[1:]}
    assert names == EDITORS["definitions"].keys()

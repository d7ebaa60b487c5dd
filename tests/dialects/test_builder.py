"""The Builder of all dialects: the values that it writes, and their origins."""

import pytest

from mlgen.dialects._builder import Builder, Field, short_volume
from mlgen.documents.document import Document, marked
from mlgen.problems import Place, Problem

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


def builder(metadata=None, **spec):
    metadata = {"name": "m"} if metadata is None else metadata
    return Builder(Field({"metadata": metadata, "spec": spec}))


def template(main=None, metadata=None, others=(), **pod):
    containers = [{"name": "main", "image": "example/m:1", **(main or {})}, *others]
    fields = {"spec": {"containers": containers, **pod}}
    return fields | ({"metadata": metadata} if metadata else {})


def with_role(port=None, /, **fields):
    """Return a Builder with a role "worker" of a template."""
    built = builder(template=template(**fields))
    pod_template = built.spec.get("template")
    built.role("worker", pod_template, pod_template.get("spec", "containers", 0), port)
    return built


def role(port=None, /, **fields):
    return with_role(port, **fields).roles["worker"]


class TestSourceValue:
    def test_a_value_within_knows_its_path(self):
        value = Field({"a": [{"b": 1}]}, ("spec",)).get("a", 0, "b")

        assert value == Field(1, ("spec", "a", 0, "b"))

    @pytest.mark.parametrize(
        "steps", [("c",), ("c", "d"), ("a", 1), ("a", "x"), ("a", 0, "b", "c")]
    )
    def test_a_value_that_does_not_exist_is_false(self, steps):
        value = Field({"a": [{"b": 1}]}).get(*steps)

        assert (value, bool(value)) == (Field(None, steps), False)

    @pytest.mark.parametrize("value", [0, "", False, [], {}])
    def test_an_empty_value_is_true(self, value):
        assert Field(value)

    def test_fields_and_items_have_their_paths(self):
        value = Field({"a": 1, "b": [2, 3]})

        assert list(value.fields()) == [
            ("a", Field(1, ("a",))),
            ("b", Field([2, 3], ("b",))),
        ]
        assert list(value.get("b").items()) == [
            Field(2, ("b", 0)),
            Field(3, ("b", 1)),
        ]

    def test_nothing_has_no_fields_and_no_items(self):
        assert [*Field(None).fields(), *Field(None).items()] == []


class TestPut:
    def test_a_value_is_written_with_its_origin(self):
        built = builder(a=1)

        built.put(("b", "c.d"), built.spec.get("a"))

        assert built.data["spec"] == {"b": {"c.d": 1}}
        assert built.origins["spec", "b", "c.d"] == ("spec", "a")

    @pytest.mark.parametrize("value", [0, False, "", "x"])
    def test_another_value_takes_precedence_over_that_of_the_source(self, value):
        built = builder(a=1)

        built.put(("b",), built.spec.get("a"), value)

        assert built.data["spec"] == {"b": value}

    @pytest.mark.parametrize("value", [None, {}, []])
    def test_nothing_is_not_written(self, value):
        built = builder(a=value)

        built.put(("b",), built.spec.get("a"))

        assert built.data["spec"] == {}
        assert ("spec", "b") not in built.origins


class TestMetadata:
    def test_the_metadata_is_kept_without_what_kubectl_adds(self):
        metadata = {
            "name": "m",
            "namespace": "a",
            "labels": {"team": "b"},
            "annotations": {LAST_APPLIED: "{}", "note": "c"},
        }

        assert builder(metadata).data["metadata"] == metadata | {"annotations": {"note": "c"}}

    def test_a_queue_of_kueue_is_a_gang(self):
        built = builder({"name": "m", "labels": {"kueue.x-k8s.io/queue-name": "q"}})

        assert built.data["spec"] == {"scheduling": {"gang": "kueue", "queue": "q"}}
        assert "labels" not in built.data["metadata"]

    @pytest.mark.parametrize(
        ("labels", "policy"),
        [({}, {"suspend": True}), ({"kueue.x-k8s.io/queue-name": "q"}, None)],
    )
    def test_a_job_that_kueue_resumes_is_not_suspended(self, labels, policy):
        built = builder({"name": "m", "labels": labels})
        built.put(("runPolicy", "suspend"), built.resource, value=True)

        assert (
            built.finish(Document({}, marked({(): Place("")}))).data["spec"].get("runPolicy")
            == policy
        )

    @pytest.mark.parametrize("generated", ["mnist-", "mnist.", "mnist-.-", "mnist"])
    def test_a_generated_name_is_fixed_and_reported(self, generated):
        built = builder({"generateName": generated})

        assert built.name == "mnist"
        assert [(p.path, p.code) for p in built.collector.problems] == [
            (("metadata", "generateName"), "differs")
        ]

    def test_a_name_takes_precedence_over_a_generated_one(self):
        built = builder({"name": "m", "generateName": "other-"})

        assert (built.name, built.collector.problems) == ("m", ())

    def test_a_missing_name_is_an_error(self):
        (problem,) = builder({}).collector.problems

        assert (problem.path, problem.code) == (("metadata",), "missing-field")
        assert not problem.warning


class TestRole:
    def test_fields_of_the_container_and_of_the_pod_are_fields_of_the_role(self):
        main = {"command": ["a"], "args": ["b"], "workingDir": "/w", "imagePullPolicy": "Never"}
        pod = {"serviceAccountName": "s", "nodeSelector": {"a": "b"}, "tolerations": [{"key": "k"}]}

        assert role(main=main, **pod) == {
            "mainContainer": "main",
            "image": "example/m:1",
            **main,
            **pod,
        }

    def test_other_fields_are_its_template(self):
        main = {"tty": True, "volumeMounts": [], "lifecycle": {}}
        side = {"name": "side", "image": "example/s:1"}
        metadata = {"labels": {"a": "b"}, "annotations": {}, "creationTimestamp": "now"}

        built = with_role(
            main=main, metadata=metadata, others=[side], restartPolicy="Never", priority=3
        )

        assert built.roles["worker"]["template"] == {
            "metadata": {"labels": {"a": "b"}},
            "spec": {"priority": 3, "containers": [{"name": "main", "tty": True}, side]},
        }
        path = ("spec", "roles", "worker", "template", "spec", "containers")
        source = ("spec", "template", "spec", "containers")
        assert [built.origins[(*path, i)] for i in (0, 1)] == [(*source, 0), (*source, 1)]

    def test_a_container_without_other_fields_is_not_in_the_template(self):
        side = {"name": "side", "image": "example/s:1"}
        built = with_role(others=[side])

        assert built.roles["worker"]["template"] == {"spec": {"containers": [side]}}
        path = ("spec", "roles", "worker", "template", "spec", "containers", 0)
        assert built.origins[path] == ("spec", "template", "spec", "containers", 1)

    @pytest.mark.parametrize(
        ("resources", "short"),
        [
            ({"limits": {"cpu": 1}}, {"cpu": 1}),
            ({"limits": {"cpu": 1}, "requests": {"cpu": 1}}, {"cpu": 1}),
            ({"requests": {"cpu": 1}}, {"requests": {"cpu": 1}}),
            (
                {"limits": {"cpu": 2}, "requests": {"cpu": 1}},
                {"requests": {"cpu": 1}, "limits": {"cpu": 2}},
            ),
            (
                {"limits": {"gpu": 1}, "requests": {"cpu": 1}},
                {"requests": {"gpu": 1, "cpu": 1}, "limits": {"gpu": 1}},
            ),
            ({}, None),
        ],
    )
    def test_a_limit_is_the_default_of_a_request(self, resources, short):
        worker = role(main={"resources": resources})

        assert worker.get("resources") == short
        assert "template" not in worker

    def test_resources_with_claims_stay_in_the_template(self):
        resources = {"limits": {"cpu": 1}, "claims": [{"name": "c"}]}

        worker = role(main={"resources": resources})

        assert "resources" not in worker
        assert worker["template"]["spec"]["containers"] == [
            {"name": "main", "resources": resources}
        ]

    def test_the_last_of_two_variables_takes_effect(self):
        field = {"fieldRef": {"fieldPath": "metadata.name"}}
        env = [
            {"name": "A", "value": "1"},
            {"name": "A", "value": "2"},
            {"name": "B"},
            {"name": "C", "valueFrom": field},
        ]

        built = with_role(main={"env": env})

        assert built.roles["worker"]["env"] == {"A": "2", "B": "", "C": {"valueFrom": field}}
        source = ("spec", "template", "spec", "containers", 0, "env")
        path = ("spec", "roles", "worker", "env")
        assert built.origins[(*path, "A")] == (*source, 1, "value")
        assert built.origins[(*path, "C")] == (*source, 3)
        assert [(p.path, p.message) for p in built.collector.problems] == [
            ((*source, 1, "name"), "duplicate variable A")
        ]

    @pytest.mark.parametrize(
        ("ports", "number"),
        [
            ([{"name": "p", "containerPort": 80}], 80),
            ([{"name": "q", "containerPort": 81}, {"name": "p", "containerPort": 80}], 80),
            ([{"containerPort": 80}], None),
        ],
    )
    def test_the_operator_s_port_is_that_of_the_role_and_keeps_its_name(self, ports, number):
        worker = role("p", main={"ports": ports})

        (container,) = worker["template"]["spec"]["containers"]
        assert (worker.get("port"), container["ports"]) == (number, ports)

    def test_without_a_name_of_a_port_ports_stay_in_the_template(self):
        worker = role(main={"ports": [{"containerPort": 80}]})

        assert "port" not in worker
        assert worker["template"]["spec"]["containers"][0]["ports"] == [{"containerPort": 80}]


CLAIM = {"name": "data", "persistentVolumeClaim": {"claimName": "c"}}
MOUNT = {"name": "data", "mountPath": "/data"}


class TestVolumes:
    @pytest.mark.parametrize(
        ("volume", "short"),
        [
            ({"persistentVolumeClaim": {"claimName": "c"}}, {"pvc": "c"}),
            ({"persistentVolumeClaim": {"claimName": "c", "readOnly": True}}, {}),
            ({"configMap": {"name": "c"}}, {"configMap": "c"}),
            ({"configMap": {"name": "c", "items": []}}, {"configMap": {"name": "c", "items": []}}),
            ({"configMap": {"optional": True}}, {}),
            (
                {"projected": {"sources": [{"secret": {}}]}},
                {"projected": {"sources": [{"secret": {}}]}},
            ),
            ({"secret": {"secretName": "c"}}, {"secret": "c"}),
            ({"hostPath": {"path": "/c"}}, {"hostPath": "/c"}),
            (
                {"hostPath": {"path": "/c", "type": "File"}},
                {"hostPath": {"path": "/c", "type": "File"}},
            ),
            ({"nfs": {"server": "s", "path": "/p"}}, {"nfs": {"server": "s", "path": "/p"}}),
            ({"nfs": {"server": "s", "path": "/p", "readOnly": True}}, {}),
            ({"emptyDir": {}}, {"emptyDir": {}}),
            (
                {"emptyDir": {"medium": "Memory", "sizeLimit": 1}},
                {"emptyDir": {"medium": "Memory", "sizeLimit": 1}},
            ),
            ({"emptyDir": {"medium": "HugePages"}}, {}),
            ({"csi": {"driver": "d"}}, {}),
            ({"emptyDir": {}, "nfs": {"server": "s"}}, {}),
            ({"emptyDir": None}, {}),
            ({}, {}),
        ],
    )
    def test_a_volume_has_a_short_form_if_that_holds_all_its_fields(self, volume, short):
        assert short_volume({"name": "data", **volume}) == short

    def test_a_volume_of_the_training_container_is_short(self):
        mount = MOUNT | {"subPath": "a", "readOnly": True}

        worker = role(main={"volumeMounts": [mount]}, volumes=[CLAIM])

        fields = {"mountPath": "/data", "subPath": "a", "readOnly": True, "pvc": "c"}
        assert worker["volumes"] == {"data": fields}
        assert "template" not in worker

    @pytest.mark.parametrize(
        ("mounts", "others"),
        [
            ([], []),
            ([MOUNT, MOUNT | {"mountPath": "/b"}], []),
            ([MOUNT | {"mountPropagation": "None"}], []),
            ([MOUNT], [{"name": "side", "volumeMounts": [MOUNT]}]),
        ],
    )
    def test_other_volumes_stay_in_the_template(self, mounts, others):
        worker = role(main={"volumeMounts": mounts}, others=others, volumes=[CLAIM])

        assert "volumes" not in worker
        assert worker["template"]["spec"]["volumes"] == [CLAIM]

    def test_a_volume_that_an_init_container_mounts_stays_in_the_template(self):
        init = [{"name": "init", "volumeMounts": [MOUNT]}]

        worker = role(main={"volumeMounts": [MOUNT]}, initContainers=init, volumes=[CLAIM])

        assert "volumes" not in worker


def finished(roles, origins=None, **spec):
    """Return the TrainingJob of a Builder that holds these roles."""
    built = builder()
    built.data["spec"] = {**spec, "roles": roles}
    built.origins |= origins or {}
    return built.finish(Document({}, marked({(): Place("a", 1, 1), ("x", "i"): Place("a", 2, 3)})))


class TestFinish:
    def test_fields_that_all_roles_share_are_written_once(self):
        roles = {
            "master": {"replicas": 1, "image": "i", "backoffLimit": 2, "env": {"A": "1"}},
            "worker": {"replicas": 1, "image": "i", "backoffLimit": 2, "env": {"A": "2"}},
        }

        assert finished(roles).data["spec"] == {
            "image": "i",
            "roles": {
                "master": {"replicas": 1, "backoffLimit": 2, "env": {"A": "1"}},
                "worker": {"replicas": 1, "backoffLimit": 2, "env": {"A": "2"}},
            },
        }

    def test_a_single_role_keeps_its_fields(self):
        assert finished({"worker": {"image": "i"}}).data["spec"] == {
            "roles": {"worker": {"image": "i"}}
        }

    def test_a_field_that_one_role_lacks_is_not_shared(self):
        roles = {"master": {"image": "i"}, "worker": {}}

        assert finished(roles).data["spec"]["roles"] == roles

    def test_fields_are_in_the_order_of_a_job_file(self):
        role = {"volumes": {}, "env": {}, "image": "i", "replicas": 2, "waitFor": []}
        spec = finished({"worker": role}, runPolicy={}, options={}, framework="jax").data["spec"]

        assert list(spec) == ["framework", "options", "roles", "runPolicy"]
        assert list(spec["roles"]["worker"]) == ["replicas", "image", "env", "volumes", "waitFor"]

    @pytest.mark.parametrize(
        ("path", "source", "place"),
        [
            (("spec", "image"), ("x", "i"), Place("a", 2, 3)),
            (("spec", "other"), (), Place("a", 1, 1)),
        ],
    )
    def test_a_shared_field_has_the_place_of_the_first_role(self, path, source, place):
        roles = {"master": {"image": "i"}, "worker": {"image": "i"}}
        origins = {
            ("spec", "roles", name, "image"): (x, "i")
            for name, x in (("master", "x"), ("worker", "y"))
        }

        problem = finished(roles, origins).located(Problem(path, "", "bad-value"))

        assert problem.place == place
        assert not source or problem.path == source


class TestShareTemplates:
    @staticmethod
    def shared(*templates):
        built = builder()
        roles = {f"r{i}": {"template": each} if each else {} for i, each in enumerate(templates)}
        built.data["spec"]["roles"] = roles
        built.origins["spec", "roles", "r0", "template"] = ("x",)
        built.share_templates()
        return built

    def test_equal_fields_are_written_once_down_to_a_label(self):
        first = {"metadata": {"labels": {"a": "1", "b": "2"}}, "spec": {"priority": 1}}
        second = {"metadata": {"labels": {"a": "1", "b": "3"}}, "spec": {"priority": 1}}

        built = self.shared(first, second)

        assert built.data["spec"]["template"] == {
            "metadata": {"labels": {"a": "1"}},
            "spec": {"priority": 1},
        }
        assert built.data["spec"]["roles"] == {
            "r0": {"template": {"metadata": {"labels": {"b": "2"}}}},
            "r1": {"template": {"metadata": {"labels": {"b": "3"}}}},
        }
        assert built.origins["spec", "template"] == ("x",)

    def test_equal_templates_leave_none_in_the_roles(self):
        built = self.shared({"spec": {"priority": 1}}, {"spec": {"priority": 1}})

        assert built.data["spec"]["roles"] == {"r0": {}, "r1": {}}

    @pytest.mark.parametrize(
        "templates",
        [
            [{"spec": {"priority": 1}}],
            [{"spec": {"priority": 1}}, {"spec": {"priority": 2}}],
            [{"spec": {"priority": 1}}, None],
            [{"spec": {"priority": 1}}, {"spec": 1}],
        ],
    )
    def test_different_templates_are_not_changed(self, templates):
        built = self.shared(*templates)

        assert "template" not in built.data["spec"]
        roles = built.data["spec"]["roles"].values()
        assert [role.get("template") for role in roles] == templates

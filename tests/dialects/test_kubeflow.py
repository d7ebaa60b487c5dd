"""Jobs of the training operator: each field, default and rule, without rendering."""

import pytest

ENDLESS = 2147483647

KINDS = {
    "TFJob": ("tfReplicaSpecs", "tensorflow"),
    "PyTorchJob": ("pytorchReplicaSpecs", "pytorch"),
    "XGBoostJob": ("xgbReplicaSpecs", "xgboost"),
    "PaddleJob": ("paddleReplicaSpecs", "paddle"),
    "JAXJob": ("jaxReplicaSpecs", "jax"),
    "MXJob": ("mxReplicaSpecs", "mxnet"),
}


def replica_type(kind, replicas=None, restart=None, pod=None, **container):
    main = {"name": KINDS[kind][1], "image": "example/m:1", **container}
    fields = {"template": {"spec": {"containers": [main], **(pod or {})}}}
    fields |= {} if replicas is None else {"replicas": replicas}
    return fields | ({} if restart is None else {"restartPolicy": restart})


def resource(kind, replica_types, version="v1", name="m", **spec):
    return {
        "apiVersion": f"kubeflow.org/{version}",
        "kind": kind,
        "metadata": {"name": name},
        "spec": {KINDS[kind][0]: replica_types, **spec},
    }


def workers(kind, replicas=2, version="v1", **spec):
    return resource(kind, {"Worker": replica_type(kind, replicas)}, version, **spec)


def test_the_default_restart_policy_is_that_of_the_operator(job):
    rows = [
        ("TFJob", "Never"),
        ("PyTorchJob", "OnFailure"),
        ("PaddleJob", "OnFailure"),
        ("JAXJob", "Never"),
        ("MXJob", "Never"),
    ]

    assert [job(workers(kind))["spec"]["roles"]["worker"]["restartPolicy"] for kind, _ in rows] == [
        restart for _, restart in rows
    ]


@pytest.mark.parametrize("restart", ["Always", "OnFailure", "Never", "ExitCode"])
def test_a_restart_policy_is_kept(restart, job):
    custom_resource = resource("TFJob", {"Worker": replica_type("TFJob", 1, restart)})

    assert job(custom_resource)["spec"]["roles"]["worker"]["restartPolicy"] == restart


@pytest.mark.parametrize(
    ("restart", "in_template", "applies"),
    [
        (None, "OnFailure", "Never"),
        ("ExitCode", "OnFailure", "ExitCode"),
        (None, "Never", None),
        ("OnFailure", "OnFailure", None),
        ("ExitCode", "Never", None),
        ("OnFailure", None, None),
    ],
)
def test_a_restart_policy_of_a_template_that_differs_is_reported(
    restart, in_template, applies, reported
):
    pod = {"restartPolicy": in_template} if in_template else {}
    worker = replica_type("TFJob", 1, restart, pod)

    messages = [text for _, text in reported(resource("TFJob", {"Worker": worker}))]

    expected = f"the operator ignores restartPolicy in a pod template; {applies} of the replica"
    assert len(messages) == bool(applies)
    assert all(text.startswith(expected) for text in messages)


@pytest.mark.parametrize("name", ["Eval", "eval", "Evaluator"])
def test_eval_is_an_earlier_name_of_the_evaluator(name, job):
    types = {"Chief": replica_type("TFJob", 1), name: replica_type("TFJob", 1)}

    assert list(job(resource("TFJob", types))["spec"]["roles"]) == ["chief", "evaluator"]


def test_replica_types_are_in_the_operator_s_order_in_any_case(job):
    types = {name: replica_type("TFJob", 1) for name in ("worker", "PS", "CHIEF")}

    assert list(job(resource("TFJob", types))["spec"]["roles"]) == ["chief", "ps", "worker"]


def test_the_same_replica_type_in_another_case_is_rejected(reported):
    types = {name: replica_type("TFJob", 1) for name in ("Worker", "worker")}

    assert reported(resource("TFJob", types)) == [
        (
            "spec.tfReplicaSpecs.worker",
            "duplicate replica type Worker; upper and lower case are not distinguished",
        )
    ]


def test_an_unknown_replica_type_is_rejected(reported):
    types = {"Worker": replica_type("JAXJob"), "Gamer": replica_type("JAXJob")}

    assert reported(resource("JAXJob", types)) == [
        ("spec.jaxReplicaSpecs.Gamer", 'unknown replica type "Gamer"')
    ]


@pytest.mark.parametrize("name", ["a", "a-1", "a" * 63])
def test_a_job_name_is_a_dns_label(name, reported):
    assert reported(workers("JAXJob", name=name)) == []


@pytest.mark.parametrize("name", ["1a", "a-", "a.b", "A", "a" * 64])
def test_a_job_name_that_is_no_dns_label_is_rejected(name, reported):
    path_and_message = ("metadata.name", f'"{name}" is not a valid job name')

    assert reported(workers("JAXJob", name=name)) == [path_and_message]


def test_the_only_container_trains_whatever_its_name(job, reported):
    custom_resource = workers("JAXJob")
    pod = custom_resource["spec"]["jaxReplicaSpecs"]["Worker"]["template"]["spec"]
    pod["containers"][0]["name"] = "main"
    path = "spec.jaxReplicaSpecs.Worker.template.spec.containers"

    message = 'the operator requires a container named "jax"; mlgen uses the only container'
    assert reported(custom_resource) == [(f"{path}[0].name", message)]
    assert job(custom_resource)["spec"]["roles"]["worker"]["mainContainer"] == "main"

    pod["containers"].append({"name": "logs", "image": "example/logs:1"})
    assert reported(custom_resource) == [(path, 'no container has the name "jax"')]


@pytest.mark.parametrize("deadline", [0, 600])
def test_a_deadline_does_not_limit_the_time_to_wait(deadline, job):
    spec = job(workers("JAXJob", runPolicy={"activeDeadlineSeconds": deadline}))["spec"]

    assert spec["runPolicy"]["activeDeadlineSeconds"] == deadline
    assert "wait" not in spec


@pytest.mark.parametrize(
    ("restart", "policy", "limit"),
    [
        ("Never", {}, None),
        ("OnFailure", {}, ENDLESS),
        ("ExitCode", {}, ENDLESS),
        ("OnFailure", {"backoffLimit": 0}, 0),
        ("Never", {"backoffLimit": 3}, 3),
    ],
)
def test_replicas_restart_without_limit_unless_a_backoff_limit_is_set(restart, policy, limit, job):
    custom_resource = resource(
        "TFJob", {"Worker": replica_type("TFJob", 1, restart)}, runPolicy=policy
    )

    assert job(custom_resource)["spec"].get("runPolicy", {}).get("backoffLimit") == limit


@pytest.mark.parametrize(
    ("server", "policy", "crashes"),
    [
        (("TFJob", "PS", "Always"), {}, 0),
        (("TFJob", "PS", "Always"), {"backoffLimit": 0}, 1),
        (("TFJob", "PS", "Always"), {"backoffLimit": 7}, 7),
        (("TFJob", "PS", "OnFailure"), {"backoffLimit": 7}, None),
        (("TFJob", "Evaluator", "Always"), {"backoffLimit": 7}, None),
        (("MXJob", "TunerServer", "Always"), {"backoffLimit": 7}, 7),
        (("MXJob", "Server", "Always"), {"backoffLimit": 7}, None),
    ],
)
def test_crashes_of_servers_count_against_the_backoff_limit(server, policy, crashes, job):
    kind, role, restart = server
    types = {role: replica_type(kind, 1, restart), "Worker": replica_type(kind, 1)}

    run_policy = job(resource(kind, types, runPolicy=policy))["spec"]["runPolicy"]

    assert run_policy.get("giveUpAfter") == (None if crashes is None else {"crashes": crashes})


@pytest.mark.parametrize(
    ("chief", "policy", "limits"),
    [
        ("Never", {"backoffLimit": 3}, {"chief": 0, "worker": None}),
        ("Never", {}, {"chief": 0, "worker": None}),
        ("ExitCode", {"backoffLimit": 3}, {"chief": None, "worker": None}),
    ],
)
def test_a_role_with_never_is_not_retried_whatever_the_limit(chief, policy, limits, job):
    types = {
        "Chief": replica_type("TFJob", 1, chief),
        "Worker": replica_type("TFJob", 1, "ExitCode"),
    }

    roles = job(resource("TFJob", types, runPolicy=policy))["spec"]["roles"]

    assert {name: role.get("backoffLimit") for name, role in roles.items()} == limits


def test_the_run_policy_is_read_wherever_a_version_has_it(job):
    rows = [
        {"runPolicy": {"cleanPodPolicy": "All"}},
        {"RunPolicy": {"cleanPodPolicy": "All"}},
        {"cleanPodPolicy": "All"},
        {"runPolicy": {"cleanPodPolicy": "All"}, "cleanPodPolicy": "Running"},
    ]

    assert [job(workers("JAXJob", **spec))["spec"]["runPolicy"] for spec in rows] == [
        {"cleanPodPolicy": "All"} for spec in rows
    ]


def test_clean_pod_policy_has_the_default_of_its_version(job):
    rows = [
        ("TFJob", "v1", None),
        ("TFJob", "v1beta2", "Running"),
        ("TFJob", "v1alpha2", "Running"),
        ("MXJob", "v1alpha2", "Running"),
        ("MXJob", "v1beta1", "All"),
    ]

    for spec in [{}, {"cleanPodPolicy": ""}]:
        for kind, version, policy in rows:
            run_policy = job(workers(kind, version=version, **spec))["spec"].get("runPolicy", {})

            assert run_policy.get("cleanPodPolicy") == policy


@pytest.mark.parametrize(
    ("manager", "kept"), [("kubeflow.org/training-operator", None), ("a.b/c", "a.b/c")]
)
def test_only_another_manager_is_kept(manager, kept, job):
    spec = job(workers("JAXJob", runPolicy={"managedBy": manager, "suspend": True}))["spec"]

    assert spec["runPolicy"].get("managedBy") == kept
    assert spec["runPolicy"]["suspend"] is True


POLICY = {
    "minAvailable": 2,
    "queue": "night",
    "minResources": {"cpu": 4},
    "priorityClass": "high",
    "scheduleTimeoutSeconds": 60,
}


@pytest.mark.parametrize(
    ("scheduler", "scheduling"),
    [
        (
            "volcano",
            {
                "gang": "volcano",
                "queue": "night",
                "priorityClassName": "high",
                "minMember": 2,
                "minResources": {"cpu": 4},
            },
        ),
        (
            "my-scheduler",
            {
                "gang": "coscheduling",
                "priorityClassName": "high",
                "minMember": 2,
                "minResources": {"cpu": 4},
                "scheduleTimeoutSeconds": 60,
            },
        ),
    ],
)
def test_a_gang_is_formed_by_the_scheduler_of_the_pods(scheduler, scheduling, job):
    worker = replica_type("JAXJob", 2, pod={"schedulerName": scheduler})
    custom_resource = resource("JAXJob", {"Worker": worker}, runPolicy={"schedulingPolicy": POLICY})

    assert job(custom_resource)["spec"]["scheduling"] == scheduling


@pytest.mark.parametrize("pod", [{}, {"schedulerName": "default-scheduler"}])
def test_no_gang_is_formed_without_a_scheduler(pod, job, reported):
    worker = replica_type("JAXJob", 2, pod=pod)
    custom_resource = resource("JAXJob", {"Worker": worker}, runPolicy={"schedulingPolicy": POLICY})

    assert "scheduling" not in job(custom_resource)["spec"]
    assert [path for path, _ in reported(custom_resource)] == ["spec.runPolicy.schedulingPolicy"]


@pytest.mark.parametrize("text", ["m-worker-0.m:80", "m-worker-1:80", "m-worker-0", "m-ps-0"])
def test_names_of_replicas_are_no_differences(text, reported):
    custom_resource = resource("JAXJob", {"Worker": replica_type("JAXJob", 2, args=[text])})

    assert reported(custom_resource) == []


def test_a_variable_that_the_operator_overwrites_is_removed(job, reported):
    env = [{"name": "PROCESS_ID", "value": "7"}, {"name": "A", "value": "b"}]
    custom_resource = resource("JAXJob", {"Worker": replica_type("JAXJob", 2, env=env)})
    message = "PROCESS_ID has no effect: the operator and mlgen overwrite it"

    assert job(custom_resource)["spec"]["roles"]["worker"]["env"] == {"A": "b"}
    assert [text for _, text in reported(custom_resource)] == [message]


def test_an_env_without_other_variables_is_removed(job):
    env = [{"name": "PROCESS_ID", "value": "7"}]
    custom_resource = resource("JAXJob", {"Worker": replica_type("JAXJob", 2, env=env)})

    assert "env" not in job(custom_resource)["spec"]["roles"]["worker"]


@pytest.mark.parametrize(("replicas", "env"), [(1, {"TF_CONFIG": "{}"}), (2, None)])
def test_a_single_replica_keeps_its_tf_config(replicas, env, job):
    variables = [{"name": "TF_CONFIG", "value": "{}"}]
    custom_resource = resource("TFJob", {"Worker": replica_type("TFJob", replicas, env=variables)})

    assert job(custom_resource)["spec"]["roles"]["worker"].get("env") == env


@pytest.mark.parametrize(
    ("leader", "policy", "success"),
    [
        (None, "AllWorkers", {"role": "worker", "replicas": "All"}),
        (None, "", None),
        ("Chief", "AllWorkers", None),
        ("Master", "AllWorkers", None),
    ],
)
def test_all_workers_decide_only_without_a_leader(leader, policy, success, job):
    types = {name: replica_type("TFJob", 1) for name in ("Worker", leader) if name}

    spec = job(resource("TFJob", types, successPolicy=policy))["spec"]

    assert spec.get("successPolicy") == success


def test_chief_and_master_are_mutually_exclusive(reported):
    types = {name: replica_type("TFJob", 1) for name in ("Chief", "Master")}

    assert reported(resource("TFJob", types)) == [
        ("spec.tfReplicaSpecs.Master", "Chief and Master are mutually exclusive")
    ]


@pytest.mark.parametrize(
    ("kind", "version", "replicas", "valid"),
    [
        ("PyTorchJob", "v1", 1, True),
        ("PyTorchJob", "v1", None, True),
        ("PyTorchJob", "v1", 2, False),
        ("PyTorchJob", "v1beta2", 1, True),
        ("PyTorchJob", "v1beta2", None, True),
        ("PyTorchJob", "v1beta2", 2, False),
        ("XGBoostJob", "v1", 1, True),
        ("XGBoostJob", "v1", None, True),
        ("XGBoostJob", "v1", 2, False),
    ],
)
def test_a_master_has_one_replica(kind, version, replicas, valid, reported):
    types = {"Master": replica_type(kind, replicas), "Worker": replica_type(kind, 1)}

    messages = [message for _, message in reported(resource(kind, types, version))]

    assert [text.startswith("the Master must have one replica") for text in messages] == (
        [] if valid else [True]
    )


@pytest.mark.parametrize(
    ("kind", "version"), [("PyTorchJob", "v1beta2"), ("XGBoostJob", "v1"), ("PyTorchJob", "v1")]
)
def test_only_a_pytorch_job_of_v1_needs_no_master(kind, version, reported):
    messages = [message for _, message in reported(workers(kind, version=version))]
    needs = (kind, version) != ("PyTorchJob", "v1")

    assert messages == ["a Master is required"] * needs


@pytest.mark.parametrize(
    ("processes", "option"), [("4", 4), (4, 4), ("gpu", "gpu"), ("auto", "auto")]
)
def test_processes_per_node_are_a_number_if_they_can_be(processes, option, job):
    spec = job(workers("PyTorchJob", nprocPerNode=processes))["spec"]

    assert spec["options"] == {"nprocPerNode": option}


class TestElasticPolicy:
    """An elastic PyTorchJob, as torchrun's options."""

    @staticmethod
    def spec(job, replicas=3, **policy):
        return job(workers("PyTorchJob", replicas, elasticPolicy=policy))["spec"]

    def test_the_sizes_and_the_rendezvous_are_options(self, job):
        policy = {"minReplicas": 1, "maxReplicas": 4, "maxRestarts": 7, "rdzvId": "a"}
        conf = [{"key": "timeout", "value": "60"}]

        spec = self.spec(job, **policy, rdzvConf=conf, nProcPerNode=2)

        options = spec["options"]
        assert options["elasticPolicy"] == {**policy, "rdzvConf": {"timeout": "60"}}
        assert options["nprocPerNode"] == 2

    def test_the_maximum_is_the_number_of_replicas_if_nothing_is_set(self, job):
        assert self.spec(job, 3)["options"] == {"elasticPolicy": {"maxReplicas": 3}}

    def test_the_rendezvous_at_worker_0_uses_its_port(self, job):
        spec = self.spec(job, rdzvBackend="c10d", rdzvHost="m-worker-0", rdzvPort=29500)

        assert spec["roles"]["worker"]["port"] == 29500
        assert "env" not in spec["roles"]["worker"]
        assert "waitFor" not in spec

    @pytest.mark.parametrize(("port", "number"), [({}, 23456), ({"rdzvPort": 2379}, 2379)])
    def test_a_rendezvous_elsewhere_is_an_endpoint(self, port, number, job):
        spec = self.spec(job, rdzvBackend="etcd", rdzvHost="etcd.a", **port)

        assert spec["roles"]["worker"]["env"] == {
            "PET_RDZV_ENDPOINT": f"etcd.a:{number}",
            "PET_RDZV_BACKEND": "etcd",
        }
        assert "port" not in spec["roles"]["worker"]
        assert "waitFor" not in spec

    @pytest.mark.parametrize(
        ("standalone", "env"), [(True, {"PET_STANDALONE": "1"}), (False, None)]
    )
    def test_standalone_is_a_variable_with_a_number(self, standalone, env, job):
        assert self.spec(job, standalone=standalone)["roles"]["worker"].get("env") == env

    def test_the_number_of_processes_is_set_once(self, reported):
        policy = {"nProcPerNode": 2}

        assert reported(workers("PyTorchJob", elasticPolicy=policy, nprocPerNode="2")) == [
            (
                "spec.elasticPolicy.nProcPerNode",
                "nProcPerNode and spec.nprocPerNode are mutually exclusive",
            )
        ]

    @pytest.mark.parametrize(
        ("policy", "maximum", "warned"),
        [({"maxReplicas": 2}, 3, True), ({"maxReplicas": 4}, 4, False), ({}, 3, False)],
    )
    def test_a_master_counts_as_a_replica(self, policy, maximum, warned, job, reported):
        types = {"Master": replica_type("PyTorchJob"), "Worker": replica_type("PyTorchJob", 2)}
        custom_resource = resource("PyTorchJob", types, elasticPolicy=policy)
        message = (
            "the operator does not count the Master in maxReplicas, so one replica would wait;"
            " mlgen sets maxReplicas to 3"
        )

        options = job(custom_resource)["spec"]["options"]

        assert options == {"elasticPolicy": {"maxReplicas": maximum}}
        assert reported(custom_resource) == [("spec.elasticPolicy.maxReplicas", message)] * warned

    def test_a_master_meets_the_workers_where_they_meet(self, job):
        types = {"Master": replica_type("PyTorchJob"), "Worker": replica_type("PyTorchJob", 2)}
        policy = {"rdzvHost": "etcd.a", "rdzvPort": 2379}

        spec = job(resource("PyTorchJob", types, elasticPolicy=policy))["spec"]

        assert spec["env"] == {"PET_RDZV_ENDPOINT": "etcd.a:2379"}

    def test_metrics_are_reported(self, reported):
        policy = {"metrics": [{"type": "Resource"}]}

        assert [path for path, _ in reported(workers("PyTorchJob", elasticPolicy=policy))] == [
            "spec.elasticPolicy.metrics"
        ]


def test_keys_of_tuner_servers_are_annotations_in_v1_and_labels_before(job):
    annotated = replica_type("MXJob", 1)
    annotated["template"]["metadata"] = {"annotations": {"tuner-server-key": "a"}}
    types = {"TunerServer": annotated, "Tuner": {**replica_type("MXJob", 1), "label": "b"}}

    options = [
        job(resource("MXJob", types, version))["spec"]["options"] for version in ("v1", "v1beta1")
    ]

    assert options == [
        {"tunerServerKeys": {"tunerserver": "a"}},
        {"tunerServerKeys": {"tuner": "b"}},
    ]


def test_before_v1_only_some_exit_codes_are_retried(job):
    types = {
        "Chief": replica_type("TFJob", 1, "ExitCode"),
        "Worker": replica_type("TFJob", 1, "OnFailure"),
    }

    roles = {
        version: job(resource("TFJob", types, version))["spec"]["roles"]
        for version in ("v1", "v1beta2")
    }

    assert roles["v1beta2"]["chief"]["retryableExitCodes"] == [130, 137, 138, 143]
    assert "retryableExitCodes" not in roles["v1beta2"]["worker"]
    assert "retryableExitCodes" not in roles["v1"]["chief"]


@pytest.mark.parametrize("kind", ["TFJob", "PyTorchJob", "MXJob"])
def test_v1alpha2_retries_every_exit_code_from_128(kind, job):
    types = {"Worker": replica_type(kind, 1, "ExitCode")}
    if kind == "PyTorchJob":
        types["Master"] = replica_type(kind, 1, "OnFailure")

    role = job(resource(kind, types, "v1alpha2"))["spec"]["roles"]["worker"]

    assert role["restartPolicy"] == "ExitCode"
    assert "retryableExitCodes" not in role


def test_replicas_of_a_v1alpha2_tfjob_restart_by_default(job):
    types = {name: replica_type("TFJob", 1) for name in ("Chief", "PS", "Worker")}

    roles = job(resource("TFJob", types, "v1alpha2"))["spec"]["roles"]

    assert {name: role["restartPolicy"] for name, role in roles.items()} == {
        "chief": "OnFailure",
        "ps": "Always",
        "worker": "OnFailure",
    }


def test_before_v1_the_time_to_live_has_another_name(job):
    spec = job(workers("TFJob", version="v1beta1", ttlSecondsAfterFinishing=9))["spec"]

    assert spec["runPolicy"]["ttlSecondsAfterFinished"] == 9


def replica_list(kind, items, **spec):
    """A job of v1alpha1 from (fields, restart policy)."""
    specs = []
    for fields, restart in items:
        pod = {"restartPolicy": restart} if restart else {}
        specs.append({**fields, "template": replica_type(kind, pod=pod)["template"]})
    return {
        "apiVersion": "kubeflow.org/v1alpha1",
        "kind": kind,
        "metadata": {"name": "m"},
        "spec": {"replicaSpecs": specs, **spec},
    }


class TestV1alpha1:
    """Jobs with a list of replica types."""

    @pytest.mark.parametrize(
        ("field", "role", "restart", "policy"),
        [
            ("tfReplicaType", "MASTER", "Never", "ExitCode"),
            ("tfReplicaType", "MASTER", None, "ExitCode"),
            ("tfReplicaType", "WORKER", "Never", "OnFailure"),
            ("tfReplicaType", "WORKER", "OnFailure", "OnFailure"),
            ("tfReplicaType", "WORKER", None, "OnFailure"),
            ("tfReplicaType", "PS", None, "Always"),
            ("tfReplicaType", "PS", "OnFailure", "OnFailure"),
            ("replicaType", "MASTER", "Never", "Never"),
            ("replicaType", "MASTER", None, "OnFailure"),
        ],
    )
    def test_the_restart_policy_depends_on_who_decides(self, field, role, restart, policy, job):
        kind = {"tfReplicaType": "TFJob", "replicaType": "PyTorchJob"}[field]
        items = [({field: role}, restart)]
        items += [] if role == "MASTER" else [({field: "MASTER"}, None)]

        roles = job(replica_list(kind, items))["spec"]["roles"]

        assert roles[role.lower()].get("restartPolicy") == policy

    def test_an_item_without_a_type_has_the_default_type(self, job):
        assert list(job(replica_list("TFJob", [({}, None)]))["spec"]["roles"]) == ["master"]

    def test_a_named_replica_decides(self, job):
        items = [({"tfReplicaType": name}, None) for name in ("MASTER", "WORKER")]
        policy = {"chief": {"replicaName": "WORKER", "replicaIndex": 0}}

        spec = job(replica_list("TFJob", items, terminationPolicy=policy))["spec"]

        assert spec["successPolicy"] == {"role": "worker", "replicas": "First"}
        assert spec["roles"]["worker"]["restartPolicy"] == "ExitCode"

    def test_the_first_type_decides_as_in_the_framework(self, job):
        items = [({"tfReplicaType": name}, None) for name in ("MASTER", "WORKER")]

        assert "successPolicy" not in job(replica_list("TFJob", items))["spec"]

    def test_another_replica_than_the_first_cannot_decide(self, reported):
        policy = {"chief": {"replicaName": "MASTER", "replicaIndex": 1}}
        custom_resource = replica_list("TFJob", [({}, None)], terminationPolicy=policy)

        assert reported(custom_resource) == [
            (
                "spec.terminationPolicy.chief.replicaIndex",
                "only the first replica can determine the end of training",
            )
        ]

    @pytest.mark.parametrize(
        ("spec", "policy"), [({}, "All"), ({"cleanupPodPolicy": "None"}, "None")]
    )
    def test_all_pods_are_deleted_by_default(self, spec, policy, job):
        run_policy = job(replica_list("TFJob", [({}, None)], **spec))["spec"]["runPolicy"]

        assert run_policy["cleanPodPolicy"] == policy

    def test_a_port_may_be_a_string(self, job):
        spec = job(replica_list("PyTorchJob", [({}, None)], masterPort="23457"))["spec"]

        assert spec["roles"]["master"]["port"] == 23457

    @pytest.mark.parametrize(
        ("spec", "image"), [({}, "tensorflow/tensorflow:1.3.0"), ({"tfImage": "a:1"}, "a:1")]
    )
    def test_parameter_servers_have_a_default(self, spec, image, job):
        custom_resource = replica_list("TFJob", [({}, None)], **spec)
        custom_resource["spec"]["replicaSpecs"].append({"tfReplicaType": "PS"})

        server = job(custom_resource)["spec"]["roles"]["ps"]

        assert server["image"] == image
        assert server["command"][:2] == ["python", "-c"]

    def test_other_roles_need_a_template(self, reported):
        custom_resource = replica_list("TFJob", [({}, None)])
        custom_resource["spec"]["replicaSpecs"].append({"tfReplicaType": "WORKER"})

        assert reported(custom_resource) == [
            ("spec.replicaSpecs[1]", "the pod template is missing")
        ]

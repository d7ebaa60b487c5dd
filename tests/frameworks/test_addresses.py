"""Names of replicas in the user's texts, and the Services that they get."""

from mlgen import frameworks
from mlgen.jobfile.model import Network, RoleSpec, TrainingJob

TEMPLATE = {"metadata": {"annotations": {"a": "m-ps-0"}}}
POD = {"spec": {"containers": [{"name": "x", "env": [{"name": "A", "value": "m-ps-0:1"}]}]}}
INIT = {"spec": {"initContainers": [{"name": "x", "command": ["nc", "m-ps-0", "80"]}]}}
PROBE = {"spec": {"containers": [{"name": "x", "livenessProbe": {"httpGet": {"host": "m-ps-0"}}}]}}
CLAIM = {"persistentVolumeClaim": {"claimName": "m-ps-0"}}
FILES = {"c": {"mountPath": "/c", "files": {"hosts": "m-ps-0\nm-worker-1\n"}}}


def aliases(framework, specs, **fields):
    """The aliases of a job named m, by role, or by role and index."""
    job = TrainingJob("m", framework, {spec.name: spec for spec in specs}, **fields)
    return {
        role.name if role.index is None else f"{role.name}-{role.index}": dict(role.aliases)
        for role in frameworks.get(framework).topology(job).roles
        if role.aliases
    }


def of_tensorflow(**fields):
    specs = (RoleSpec("chief"), RoleSpec("ps", 2), RoleSpec("worker", 2, **fields))
    return aliases("tensorflow", specs, namespace="n")


def test_a_name_that_is_dialled_is_an_alias_of_that_replica():
    rows = [
        ({}, {}),
        ({"args": ("m-ps-0.m:2222",)}, {}),
        ({"args": ("--ps_hosts=m-ps-0:1,m-ps-1:1",)}, {"ps": {"m-ps-0": 0, "m-ps-1": 1}}),
        ({"command": ("sh", "-c", "nc m-ps-1 80")}, {"ps": {"m-ps-1": 1}}),
        ({"env": {"A": "m-ps-0.n.svc.cluster.local"}}, {"ps": {"m-ps-0": 0}}),
        ({"env": {"A": "m-ps-0.other:80"}}, {}),
        ({"env": {"A": "m-ps-2:80"}}, {}),
        ({"env": {"A": "m-ps-$(I):80"}}, {"ps": {"m-ps-0": 0, "m-ps-1": 1}}),
        ({"env": {"A": "m-chief-0"}}, {"chief": {"m-chief-0": 0}}),
        ({"templates": (TEMPLATE,)}, {"ps": {"m-ps-0": 0}}),
        ({"templates": (POD,)}, {"ps": {"m-ps-0": 0}}),
        ({"templates": (INIT,)}, {"ps": {"m-ps-0": 0}}),
        ({"templates": (PROBE,)}, {"ps": {"m-ps-0": 0}}),
        ({"templates": ({"spec": {"volumes": [{"name": "d", **CLAIM}]}},)}, {}),
        ({"volumes": FILES}, {"ps": {"m-ps-0": 0}, "worker": {"m-worker-1": 1}}),
    ]

    assert [expected for _, expected in rows] == [of_tensorflow(**fields) for fields, _ in rows]


ARGS = ("m-master-0:1", "m-worker-0.n.svc:1", "m-rank-2:1", "m-worker-7:1")


def of_ranks(framework="pytorch", args=ARGS, **fields):
    specs = (RoleSpec("worker", 2, args=args), RoleSpec("master", args=args))
    return aliases(framework, specs, **fields)


def test_merged_roles_keep_the_names_of_their_replicas():
    expected = {"m-master-0": 0, "m-worker-0": 1, "m-rank-2": 2}

    assert of_ranks("xgboost") == {"rank": expected}
    assert of_ranks() == {"rank": {"m-rank-0": 0, **expected}}


def test_on_the_host_network_an_alias_belongs_to_one_replica():
    assert of_ranks(network=Network(host=True)) == {
        "rank-0": {"m-rank-0": 0, "m-master-0": 0},
        "rank-1": {"m-worker-0": 1},
        "rank-2": {"m-rank-2": 2},
    }


def test_torchrun_meets_at_a_replica_that_has_the_name_of_its_host():
    """The roles are not merged, because a merged replica has another host name."""
    endpoint = ("torchrun", "--rdzv-endpoint=m-worker-0:29400", "train.py")

    assert of_ranks(args=endpoint) == {
        "master": {"m-master-0": 0},
        "worker-0": {"m-worker-0": 0},
    }


def test_rank_0_knows_itself_by_the_address_that_others_have(topology):
    (rank,) = topology("pytorch", {"master": 1, "worker": 1}).roles

    assert rank.env["MASTER_ADDR"] == rank.env["PET_MASTER_ADDR"] == "ctr-rank-0"
    assert rank.aliases == {"ctr-rank-0": 0}
    assert {str(wait.hosts) for wait in rank.waits} == {"ctr-rank-0"}


def test_a_qualified_address_needs_no_alias():
    network, specs = Network(cluster_domain="c.local"), {"worker": RoleSpec("worker", 2)}
    job = TrainingJob("m", "pytorch", specs, namespace="n", network=network)

    (worker,) = frameworks.get("pytorch").topology(job).roles

    assert worker.env["MASTER_ADDR"] == "m-worker-0.m.n.svc.c.local"
    assert worker.aliases == {}


def test_an_elastic_role_has_the_names_of_the_replicas_that_it_can_grow_to():
    spec = RoleSpec("worker", 2, args=("m-worker-3:1", "m-worker-4:1"))
    options = {"elasticPolicy": {"maxReplicas": 4}}

    assert aliases("pytorch", [spec], options=options) == {
        "worker": {"m-worker-0": 0, "m-worker-3": 3}
    }


def test_a_name_without_the_hash_of_the_job_is_that_of_the_same_replica():
    specs = (RoleSpec("worker", 2, args=("job-worker-1:1", "job-worker-0.job:1")),)
    job = TrainingJob("job-h4sh", "jax", {"worker": specs[0]}, part_of="job")

    (worker,) = frameworks.get("jax").topology(job).roles

    assert worker.aliases == {"job-h4sh-worker-1": 1}

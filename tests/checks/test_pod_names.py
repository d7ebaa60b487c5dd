"""Names of pods that serve as the index or the address of a replica."""

import pytest
from support import job_file

import mlgen

FIELD = {"valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}
ONLY_MLGEN = "names of these pods end in a random suffix"


def job(script, framework="pytorch", env=None, **spec):
    fields = {"command": ["bash", "-c", script], "env": {"POD_NAME": FIELD, **(env or {})}, **spec}
    if framework == "generic":
        fields["options"] = {"addresses": False}
    return job_file("ctr", framework, **fields)


def hints(job):
    found = mlgen.validate(job).problems
    return [each.hint for each in found if ONLY_MLGEN in each.message]


@pytest.mark.parametrize(
    ("script", "write"),
    [
        ("t --rank=${POD_NAME##*-}", "$(MLGEN_REPLICA_INDEX)"),
        ("t --rank ${POD_NAME##*[!0-9]}", "$(MLGEN_REPLICA_INDEX)"),
        ("t --rank ${POD_NAME#ctr-worker-}", "$(MLGEN_REPLICA_INDEX)"),
        ("t --rank ${POD_NAME: -1}", "$(MLGEN_REPLICA_INDEX)"),
        ("RANK=$(echo $POD_NAME | awk -F- '{print $NF}') t", "$(MLGEN_REPLICA_INDEX)"),
        ('RANK=`echo "$POD_NAME" | sed "s/.*-//"` t', "$(MLGEN_REPLICA_INDEX)"),
        ("RANK=$(echo ${POD_NAME} | rev | cut -d- -f1 | rev) t", "$(MLGEN_REPLICA_INDEX)"),
        ("RANK=$(echo $POD_NAME | grep -oE '[0-9]+$') t", "$(MLGEN_REPLICA_INDEX)"),
        ("RANK=$(echo $POD_NAME | sed -E 's/.*-([0-9]+)$/\\1/') t", "$(MLGEN_REPLICA_INDEX)"),
        ("RANK=$(echo $POD_NAME | grep -Eo '[0-9]+' | tail -1) t", "$(MLGEN_REPLICA_INDEX)"),
        ("RANK=$(echo $POD_NAME | tr -dc 0-9) t", "$(MLGEN_REPLICA_INDEX)"),
        ("RANK=$(awk -F- '{print $NF}' <<< \"$POD_NAME\") t", "$(MLGEN_REPLICA_INDEX)"),
        ("NAME=$POD_NAME; t --rank ${NAME##*-}", "$(MLGEN_REPLICA_INDEX)"),
        (
            'python -c \'import os; print(os.environ["POD_NAME"].split("-")[-1])\'',
            'os.environ["MLGEN_REPLICA_INDEX"]',
        ),
        ("if [ $POD_NAME = ctr-worker-0 ]; then t; fi", "[ $(MLGEN_REPLICA_INDEX) = 0"),
        ('if [[ "$POD_NAME" == *-0 ]]; then t; fi', "[ $(MLGEN_REPLICA_INDEX) == 0"),
        ("[[ $POD_NAME =~ -([0-9]+)$ ]] && t", "[[ $(MLGEN_REPLICA_INDEX) =~ ([0-9]+)$"),
        ("case $POD_NAME in *-0) t;; esac", "case $(MLGEN_REPLICA_INDEX) in 0)"),
        ("t --master ${POD_NAME%-*}-0.ctr", "ctr-worker"),
        ("t --local_addr=$POD_NAME", "--local_addr=ctr-worker-$(MLGEN_REPLICA_INDEX).ctr"),
        ("export MASTER_ADDR=$POD_NAME; t", "MASTER_ADDR=ctr-worker-$(MLGEN_REPLICA_INDEX).ctr"),
        ("t tcp://$POD_NAME:1234", "ctr-worker-$(MLGEN_REPLICA_INDEX).ctr:1234"),
    ],
)
def test_a_part_of_the_name(script, write):
    document = job(script, framework="generic")
    (problem,) = mlgen.validate(document).problems
    (replaced, _, _) = problem.message.partition(" is not ")
    fixed = job(script.replace(replaced, problem.hint.removeprefix("write ")), framework="generic")

    assert problem.hint == f"write {write}"
    assert replaced in script
    assert not mlgen.validate(fixed).problems


@pytest.mark.parametrize(
    "script",
    [
        "t --rank=${HOSTNAME##*-}",
        "t --name=$POD_NAME --log=/logs/$POD_NAME.log",
        "t --rank=$(echo $POD_NAME | cut -d- -f3)",  # the index is at the same place
        "POD_NAME=$(hostname); t --rank=${POD_NAME##*-}",
        "if [[ $POD_NAME == *-launcher-0 ]]; then t; fi",  # is false under the operator, too
        "echo ${POD_NAME}: starts ${POD_NAME#ctr-}",
    ],
)
def test_other_uses(script):
    assert not hints(job(script, framework="generic"))


def test_a_stateful_set_has_stable_names():
    roles = {"ps": {"replicas": 2}, "worker": {"replicas": 1, "command": ["t"]}}
    script = "t --rank=${POD_NAME##*-} --local_addr=$POD_NAME"

    assert not hints(job(script, framework="tensorflow", roles=roles))


def test_the_fix_is_right():
    fixed = job("t --local_addr=ctr-worker-$(MLGEN_REPLICA_INDEX).ctr", framework="generic")

    assert not mlgen.validate(fixed).problems


def test_variables_and_arguments():
    env = {"LOCAL_ADDR": FIELD, "COPY": "$(POD_NAME)"}
    document = job("t --rank=${COPY##*-}", framework="generic", env=env)
    words = job("", framework="generic")
    words["spec"] |= {"command": ["t", "--local-addr", "$(POD_NAME)"]}

    assert hints(document) == [
        "write value: ctr-worker-$(MLGEN_REPLICA_INDEX).ctr",
        "write $(MLGEN_REPLICA_INDEX)",
    ]
    assert hints(words) == ["write --local-addr ctr-worker-$(MLGEN_REPLICA_INDEX).ctr"]


def test_a_script_in_files():
    files = {"mountPath": "/code", "files": {"run.sh": "t --rank=${POD_NAME##*-}"}}
    document = job("sh /code/run.sh", framework="generic", volumes={"code": files})
    (problem,) = mlgen.validate(document).problems

    assert problem.hint == "write $MLGEN_REPLICA_INDEX"
    assert problem.path == ("spec", "volumes", "code", "files", "run.sh")


def test_replicas_with_their_own_jobs():
    roles = {"master": {}, "worker": {"replicas": 2, "env": {"A": "b"}}}
    found = hints(job("torchrun --local_addr=$POD_NAME t.py", roles=roles))

    write = "write --local_addr=ctr-{}-$(MLGEN_REPLICA_INDEX).ctr".format

    assert found == [write("master"), write("worker")]

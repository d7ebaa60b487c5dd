"""The commands of a role, and the launchers that they run, with their options."""

import pytest

from mlgen.jobfile.model import RoleSpec
from mlgen.launch.line import LAUNCHERS, Line, Lines, lines_of

COMMANDS = {
    "torchrun --nnodes=2 --nproc-per-node 8 train.py --lr 1": (
        "torchrun",
        {"nnodes": "2", "nproc_per_node": "8"},
        "train.py --lr 1",
    ),
    "torchrun --standalone -m pkg.train": (
        "torchrun",
        {"standalone": "", "module": ""},
        "pkg.train",
    ),
    "/opt/bin/torchrun --new-switch train.py": ("torchrun", {"new_switch": ""}, "train.py"),
    "python3.11 -u -m torch.distributed.launch --use_env --master_port=1 a.py": (
        "torchrun",
        {"use_env": "", "master_port": "1"},
        "a.py",
    ),
    "python -m torch.distributed.run --nnodes 1:4 --nnodes 2:4 a.py": (
        "torchrun",
        {"nnodes": "2:4"},
        "a.py",
    ),
    "tune run --nproc-per-node 2 full_finetune_distributed --config llama3": (
        "tune",
        {"nproc_per_node": "2"},
        "full_finetune_distributed --config llama3",
    ),
    "python /usr/bin/torchrun a.py": ("torchrun", {}, "a.py"),
    "accelerate launch --multi_gpu --main_process_port 29501 -m a": (
        "accelerate",
        {"multi_gpu": "", "main_process_port": "29501", "module": ""},
        "a",
    ),
    "accelerate-launch a.py": ("accelerate", {}, "a.py"),
    "deepspeed -H /job/hostfile --no_ssh_check --master_port 5 a.py --deepspeed d.json": (
        "deepspeed",
        {"hostfile": "/job/hostfile", "no_ssh_check": "", "master_port": "5"},
        "a.py --deepspeed d.json",
    ),
    "horovodrun --verbose --num-proc 4 -p 22 -H a:2,b:2 python a.py": (
        "horovodrun",
        {"verbose": "", "np": "4", "ssh_port": "22", "hosts": "a:2,b:2"},
        "python a.py",
    ),
    "horovodrun --blacklist-cooldown-range 1 9 -np 2 --min-np 1 python a.py": (
        "horovodrun",
        {"blacklist_cooldown_range": "1", "np": "2", "min_np": "1"},
        "python a.py",
    ),
    "mpiexec.hydra -ppn 2 -n 4 -genv A 1 ./a.out": (
        "mpirun",
        {"npernode": "2", "np": "4", "genv_A": "1"},
        "./a.out",
    ),
    "mpirun --allow-run-as-root -bind-to none -x A -x B=1 --mca plm_rsh_agent ssh -np 2 ./a": (
        "mpirun",
        {
            "allow_run_as_root": "",
            "bind_to": "none",
            "x": "B=1",
            "mca_plm_rsh_agent": "ssh",
            "np": "2",
        },
        "./a",
    ),
    "mpirun -- hostname": ("mpirun", {}, "hostname"),
    "ray start --head --port=6380 --block": (
        "ray",
        {"head": "", "port": "6380", "block": ""},
        "start",
    ),
    "ray job submit --address http://a -- python a.py": (
        "ray",
        {"address": "http://a"},
        "job submit python a.py",
    ),
    "env A=1 timeout 60 torchrun a.py": ("torchrun", {}, "a.py"),
    "/docker-entrypoint.sh torchrun a.py": ("torchrun", {}, "a.py"),
    "conda run -n base torchrun a.py": ("torchrun", {}, "a.py"),
}
NONE = (
    "",
    "python train.py --nnodes 2",
    "python -m train",
    "python",
    "accelerate config",
    "echo torchrun a.py",
    "exec python a.py",
    "bash train.sh -c torchrun",
    "sudo pip install deepspeed",
    "conda install ray",
)
TEXTS = {
    "torchrun --nnodes=2 a.py": ["torchrun"],
    "cd /app && OMP_NUM_THREADS=1 exec torchrun \\\n  --nnodes=2 a.py > log 2>&1": ["torchrun"],
    "# don't\npip install accelerate deepspeed\nif true; then torchrun --nnodes=2 a.py; fi": [
        "torchrun"
    ],
    "ray start --head & sleep 5; (ray job submit -- python a.py)": ["ray", "ray"],
    "echo 'torchrun; torchrun'": [],
    "bash -c 'torchrun --nnodes=2 a.py'": ["torchrun"],
    "echo 'unbalanced; torchrun": [],
}


def test_options_and_script():
    for line, expected in COMMANDS.items():
        launch = Line(tuple(line.split())).launch
        program, options, script = expected
        assert (launch.program, dict(launch.options), " ".join(launch.script)) == (
            program,
            options,
            script,
        )


def test_other_programs_are_no_launchers():
    for line in NONE:
        assert Lines(line.split()).launches == ()


def test_launchers_in_the_text_of_a_shell():
    for shell in [("sh", "-c"), ("/bin/bash", "-euo", "pipefail", "-c")]:
        for text, programs in TEXTS.items():
            launches = lines_of(RoleSpec("worker", command=shell, args=(text,))).launches
            assert [launch.program for launch in launches] == programs
            assert all(launch.path == ("args", 0) for launch in launches)
            if "nnodes" in text:
                assert launches[0].number("nnodes") == 2


def test_values_that_are_known_only_at_run_time_are_not_literal():
    words = ("torchrun", "--nnodes=$N", "--nproc_per_node=gpu", "--master_port=1", "a.py")
    launch = Line(words).launch
    assert (launch.literal("nnodes"), launch.literal("nproc_per_node")) == (None, "gpu")
    assert (launch.number("nproc_per_node"), launch.number("master_port")) == (None, 1)
    assert (launch.literal("absent"), launch.number("absent")) == (None, None)


def test_a_template_replaces_command_or_args():
    containers = [{"name": "other", "args": ["x"]}, {"name": "main", "args": ["--nnodes=3", "a"]}]
    spec = RoleSpec(
        "worker",
        command=("torchrun",),
        args=("--nnodes=2",),
        templates=({"metadata": {}}, {"spec": {"containers": containers}}),
    )
    assert lines_of(spec).words == ("torchrun", "--nnodes=3", "a")
    (launch,) = lines_of(spec).launches
    assert (launch.number("nnodes"), launch.place("--nnodes")) == (3, ("template",))
    removed = RoleSpec(
        "w",
        args=("a",),
        templates=({"spec": {"containers": [{"name": "main", "args": None, "command": ["b"]}]}},),
    )
    assert lines_of(removed).words == ("b",)


FILES = {
    "run.sh": "cat <<END\ntorchrun old.py\nEND\nsource ./env.sh\ntorchrun --nnodes=2 a.py\n",
    "env.sh": "sleep 1; deepspeed b.py",
    "start": "#!/bin/bash -e\nsource env.sh\n",
}


@pytest.mark.parametrize(
    ("words", "folder", "programs"),
    [
        (("bash", "/scripts/run.sh", "x"), "/scripts", ["deepspeed", "torchrun"]),
        (("bash", "-e", "run.sh"), "/scripts", ["deepspeed", "torchrun"]),
        (("sh", "-c", "cd /scripts && exec sh run.sh"), None, ["deepspeed", "torchrun"]),
        (("/scripts/start",), "/scripts", ["deepspeed"]),
        (("/scripts/run.sh",), None, []),
        (("bash", "run.sh"), None, []),
        (("bash", "/scripts/other.sh"), None, []),
        (("python", "/scripts/run.sh"), "/scripts", []),
    ],
)
def test_launchers_in_the_scripts_of_the_job_file(words, folder, programs):
    volumes = {"code": {"mountPath": "/scripts/", "files": FILES}}
    spec = RoleSpec("worker", command=words, working_dir=folder, volumes=volumes)
    launches = lines_of(spec).launches
    assert [launch.program for launch in launches] == programs
    assert {launch.path[:3] for launch in launches} <= {("volumes", "code", "files")}


def test_scripts_that_run_each_other_are_read_once():
    volumes = {"v": {"mountPath": "/", "files": {"a": "sh /b; sh /a", "b": "sh /a"}}}
    spec = RoleSpec("worker", command=("sh", "/a"), volumes=volumes)
    assert [script.text for script in lines_of(spec).scripts] == ["sh /b; sh /a", "sh /a"]


def test_a_long_chain_of_scripts_is_read_in_part():
    files = {f"s{number}": f"sh /s{number + 1}; sh /s{number + 1}" for number in range(2000)}
    volumes = {"v": {"mountPath": "/", "files": files}}
    spec = RoleSpec("worker", command=("sh", "/s0"), volumes=volumes)
    assert 10 < len(lines_of(spec).scripts) < 100


def test_the_place_of_the_first_option_that_a_text_names():
    words = ("mpirun", "-n", "2", "--hostfile=h", "a")
    (launch,) = lines_of(RoleSpec("launcher", command=words[:1], args=words[1:])).launches
    assert launch.place("write -np 4, not --hostfile") == ("args", 0)
    assert launch.place("--hostfile=h is wrong") == ("args", 2)
    assert launch.place("write --host") == ("command", 0)


@pytest.mark.parametrize(("name", "row"), LAUNCHERS.items())
def test_the_options_in_a_row_have_values_and_their_main_names(name, row):
    meanings = [row.nodes, row.rank, row.processes, row.all_processes, row.port, row.ssh_port]
    named = {*filter(None, meanings), *row.addresses, *row.pairs, *row.ranges}

    assert not named & {*row.switches}
    assert not named & row.aliases.keys()
    assert not row.aliases.keys() & {*row.aliases.values()}
    assert name == row.programs[0].split()[0]

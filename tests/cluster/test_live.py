"""`mlgen status`, `logs`, `wait`, `delete` and `doctor` on jobs that run at the same time."""

import json
import subprocess
import sys
import threading

import pytest
from namespaces import temporary_namespace

pytestmark = pytest.mark.cluster


class Commands:
    """Runs mlgen with this test's job file, in a namespace."""

    def __init__(self, namespace, folder):
        self.namespace = namespace
        self.files = {name: str(folder / f"{name}.yaml") for name in ("gang", "held", "keyed")}

    def words(self, command, *jobs):
        files = [self.files[job] for job in jobs]
        words = [sys.executable, "-m", "mlgen", command, *files, "-n", self.namespace.name]
        return [*words, *self.namespace.images]

    def run(self, command, *words, jobs):
        """Run a command; return its exit status, stdout and stderr."""
        done = subprocess.run(
            [*self.words(command, *jobs), *words],
            capture_output=True,
            text=True,
            env=self.namespace.environment,
            stdin=subprocess.DEVNULL,
            check=False,
        )
        return done.returncode, done.stdout, done.stderr

    def start(self, command, *words, jobs):
        """Start a command, and read its output. Kills it after five minutes."""
        process = subprocess.Popen(
            [*self.words(command, *jobs), *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
            text=True,
            env=self.namespace.environment,
        )
        killer = threading.Timer(300, process.kill)
        killer.daemon = True
        killer.start()
        return Running(process, killer)


class Running:
    """A running command, and the lines that it has printed so far."""

    def __init__(self, process, killer):
        self.process, self.killer = process, killer
        self.stdout, self.stderr = [], []
        pairs = ((process.stdout, self.stdout), (process.stderr, self.stderr))
        self.readers = [threading.Thread(target=self.read, args=pair) for pair in pairs]
        for reader in self.readers:
            reader.start()

    @staticmethod
    def read(stream, lines):
        for line in stream:
            lines.append(line.rstrip("\n"))

    def end(self):
        """Wait for its end; return its exit status."""
        status = self.process.wait()
        self.killer.cancel()
        for reader in self.readers:
            reader.join()
        return status


@pytest.fixture(scope="module")
def commands(shared_namespace, request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("live")
    text = (request.path.parent / "jobs/live.yaml").read_text()
    gang, held, keyed = text.split("\n---\n")
    anchor = gang.partition("volumes: &code\n")[2]
    for name, job in (
        ("gang", gang.replace("&code", "")),
        ("held", held.replace("*code", f"\n{anchor}")),
        ("keyed", keyed),
    ):
        (folder / f"{name}.yaml").write_text(job)
    return Commands(shared_namespace, folder)


def pod(namespace, job, role, index):
    """The name of the running pod of a replica."""
    labels = f"mlgen.dev/job={job},mlgen.dev/role={role}"
    index = f"batch.kubernetes.io/job-completion-index={index}"
    words = ("-l", f"{labels},{index}", "--field-selector=status.phase=Running")
    pods = [each["metadata"] for each in namespace.get("pods", *words)["items"]]
    return next(each["name"] for each in pods if "deletionTimestamp" not in each)


def exit_with(namespace, job, role, index, code):
    name = pod(namespace, job, role, index)
    namespace.kubectl("exec", name, "-c", "main", "--", "sh", "-c", f"echo {code} > /tmp/go")


def test_one_run_of_jobs(commands, shared_namespace):
    namespace = shared_namespace
    missing(commands)
    for name in ("gang", "held"):
        namespace.apply(commands.files[name])
    waits = {
        job: commands.start("wait", "--timeout", "280s", jobs=[job]) for job in ("gang", "held")
    }
    log = commands.start("logs", "--rank", "1", "--follow", jobs=["gang"])
    everything = commands.start("logs", "--all", "--follow", jobs=["gang"])
    unmet(commands)

    namespace.until("rank 1 has a log", lambda: log.stdout)
    namespace.until("all ranks run", lambda: "3/3" in commands.run("status", jobs=["gang"])[1])
    namespace.until("all ranks have a log", lambda: len(everything.stdout) == 3)
    first = log.stdout[0]
    exit_with(namespace, "gang", "rank", 1, 137)
    restarting(commands, namespace)
    waiting(commands, namespace)
    exit_with(namespace, "held", "worker", 0, 3)
    assert 3 == waits["held"].end()
    failed(commands)

    namespace.until("rank 1 runs again", lambda: len(log.stdout) >= 3)
    previous = commands.run("logs", "--rank", "1", "--previous", jobs=["gang"])[1]
    assert [first, "exits with 137"] == previous.splitlines()
    namespace.until("all ranks run", lambda: "3/3" in commands.run("status", jobs=["gang"])[1])
    namespace.until("all ranks have a log again", lambda: len(everything.stdout) == 7)
    for index in (0, 1, 2):
        exit_with(namespace, "gang", "rank", index, 0)
    assert 0 == waits["gang"].end()
    assert 0 == log.end()
    second = log.stdout[2]
    assert [first, "exits with 137", second, "exits with 0"] == log.stdout
    assert first != second
    assert any("rank-1: new pod gang-rank-1-" in line for line in log.stderr)
    assert 0 == everything.end()
    every_rank(everything.stdout, log.stdout)
    succeeded(commands, waits["gang"])
    deleted(commands, namespace)


def every_rank(lines, log):
    """Each line of both runs of each rank appears once, after its rank."""
    found = {rank: [] for rank in "012"}
    for line in lines:
        rank, _, text = line.partition(" | ")
        found[rank].append(text)
    assert log == found["1"]
    for rank in "02":
        before, after, end = found[rank]
        assert before != after
        assert all(text.startswith(f"rank {rank} starts at") for text in (before, after))
        assert "exits with 0" == end


def missing(commands):
    """No object is applied."""
    status, stdout, stderr = commands.run("status", jobs=["gang"])
    assert (1, "") == (status, stdout)
    assert "gang is not in namespace" in stderr
    assert "gang is not in namespace" in commands.run("logs", jobs=["gang"])[2]
    assert 1 == commands.run("wait", jobs=["gang"])[0]


def unmet(commands):
    """A Secret that does not exist is found before the job is applied."""
    status, stdout, _ = commands.run("doctor", jobs=["keyed", "gang"])
    (row,) = [line for line in stdout.splitlines() if line.startswith("  missing")]
    assert 1 == status
    assert "kubectl create secret generic hub" in row
    commands.namespace.kubectl("create", "secret", "generic", "hub", "--from-literal=other=1")
    assert "has no key token" in commands.run("doctor", jobs=["keyed"])[1]
    secret = ("create", "secret", "generic", "hub", "--from-literal=token=1")
    commands.namespace.kubectl("delete", "secret", "hub")
    commands.namespace.kubectl(*secret)
    assert 0 == commands.run("doctor", jobs=["keyed", "gang"])[0]


def waiting(commands, namespace):
    """The chief waits for a parameter server that no node takes."""

    def page():
        status, stdout, _ = commands.run("status", jobs=["held"])
        done = "waits for 1 of 2 peers: ps-0" in stdout and "1/1" in stdout
        return stdout if status == 0 and done else None

    stdout = namespace.until("the chief waits and the worker runs", page)
    rows = {line.split()[0]: line for line in stdout.rpartition("REPLICA")[2].splitlines()}
    assert "WaitingForPeers" in rows["chief-0"]
    assert "Unschedulable" in rows["ps-0"]
    assert "1 node(s) didn't match Pod's node affinity/selector" in rows["ps-0"]
    assert "has no log yet: WaitingForPeers" in commands.run("logs", jobs=["held"])[2]
    log = commands.run("logs", "-c", "wait-for-peers", jobs=["held"])[1]
    assert "held-ps-0.held" in log


def restarting(commands, namespace):
    def page():
        stdout = commands.run("status", jobs=["gang"])[1]
        row = stdout.splitlines()[1]
        return stdout if "exited with code 137" in row and "Restarting" in row else None

    stdout = namespace.until("the gang restarts", page)
    assert "gang-rank-1-" in stdout


def failed(commands):
    stdout = commands.run("status", jobs=["held"])[1]
    assert "Failed" in stdout.splitlines()[1]
    assert "Failed with" not in stdout
    (row,) = [line for line in stdout.splitlines() if line.startswith("worker-0")]
    assert "exit code 3" in row


def succeeded(commands, wait):
    stdout = commands.run("status", "--watch", jobs=["gang"])[1]
    assert "gang: Succeeded, JobSucceeded: gang-rank succeeded" == stdout.strip()
    assert stdout.strip() == wait.stderr[-1]
    phases = [line.split(": ")[1].split(",")[0] for line in wait.stderr]
    assert {"Running", "Restarting", "Succeeded"} <= set(phases)


def deleted(commands, namespace):
    """No object of the jobs remains, and all other objects are untouched."""
    namespace.kubectl("create", "configmap", "mine")
    before = namespace.kubectl("get", "jobs,pods,configmaps,services", "-o", "name").split()
    status, stdout, _ = commands.run("delete", "--yes", jobs=["gang", "held"])
    after = namespace.kubectl(
        "get", "all,configmaps,roles,rolebindings,serviceaccounts", "-o", "name"
    )
    assert 0 == status
    assert {"configmap/kube-root-ca.crt", "configmap/mine", "serviceaccount/default"} == set(
        after.split()
    )
    jobs = [name for name in before if name.startswith("job.batch")]
    assert {f"{name} deleted" for name in jobs} <= set(stdout.splitlines())
    assert "nothing to delete" in commands.run("delete", "--yes", jobs=["gang"])[2]


def test_the_list_of_jobs_in_two_namespaces(environment, jobs):
    def listed(*words):
        command = [sys.executable, "-m", "mlgen", "list", *words, "-l", f"team={one.name}"]
        done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
        assert (0, "") == (done.returncode, done.stderr)
        return done.stdout

    def cells(*words):
        """Return the first cells of each row: job, namespace, framework, state and restarts."""
        return {tuple(row.split()[:5]) for row in listed(*words).splitlines()[1:]}

    with temporary_namespace(environment) as one, temporary_namespace(environment) as two:
        label = f"metadata.labels.team={one.name}"
        one.start(jobs / "short.yaml", label)
        one.start(jobs / "short.yaml", label, "metadata.name=held", "spec.runPolicy.suspend=true")
        two.start(jobs / "short.yaml", label, "spec.command=[sleep, '600']")
        expected = {
            ("held", one.name, "generic", "Suspended", "0"),
            ("short", one.name, "generic", "Succeeded", "0"),
            ("short", two.name, "generic", "Running", "0"),
        }
        one.until("all jobs are listed in their states", lambda: cells("-A") == expected)

        assert f"{one.name}/held\n{one.name}/short\n" == listed("-n", one.name, "-o", "name")
        (job,) = json.loads(listed("-n", two.name, "-o", "json"))
        assert ("ada", "worker 2/2") == (job["owner"], job["ready"])

"""Run the scripts of templates/scripts unmodified in dash and busybox, with real sockets."""

import gzip
import json
import os
import re
import shutil
import signal
import socket
import stat
import subprocess
import sys
import time
from contextlib import suppress
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from pathlib import Path
from threading import Thread

import pytest
from support import ROOT, missing

SCRIPTS = sorted((ROOT / "templates/scripts").glob("*.sh"))
BUSYBOX = os.environ.get("MLGEN_BUSYBOX") or shutil.which("busybox")
SHELLS = {"dash": [shutil.which("dash")], "busybox": [BUSYBOX, "sh"]}

PATIENCE = 60
"""Timeout of a script in seconds."""


@pytest.fixture(params=["dash", pytest.param("busybox", marks=pytest.mark.slow)])
def shell(request):
    if not SHELLS[request.param][0]:
        missing(f"there is no {request.param} (a busybox can be named by MLGEN_BUSYBOX)")
    return SHELLS[request.param]


@pytest.fixture
def tools(tmp_path):
    """A folder that comes first on PATH, with the nc of busybox if the system has none."""
    folder = tmp_path / "tools"
    folder.mkdir()
    if not shutil.which("nc") and BUSYBOX:
        (folder / "nc").symlink_to(BUSYBOX)
    return folder


@pytest.fixture
def start(shell, tools):
    """Function that starts a script. The test ends its background processes."""
    started = []

    def start(script, *arguments, **env):
        path = f"{tools}:{os.environ['PATH']}"
        process = subprocess.Popen(
            [*shell, str(script), *arguments],
            env={"PATH": path, **env},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        started.append(process.pid)
        return process

    yield start
    for group in started:
        with suppress(ProcessLookupError):
            os.killpg(group, signal.SIGKILL)


@pytest.fixture
def run(start):
    def run(*arguments, **env):
        process = start(*arguments, **env)
        try:
            out, err = process.communicate(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
        return process.returncode, out, err

    return run


@cache
def is_usable(nc):
    """Return True if an nc knows -z, and says that it cannot resolve a name as the scripts expect.

    That of netcat-openbsd and of the busybox image do. Others may neither connect nor end.
    """

    def run(*address):
        command = [nc, "-z", "-w", "3", *address]
        return subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)

    with socket.create_server(("127.0.0.1", 0)) as server, suppress(subprocess.TimeoutExpired):
        if run("127.0.0.1", str(server.getsockname()[1])).returncode == 0:
            return re.search("bad address|getaddrinfo", run("nobody.invalid", "9").stderr)
    return None


@pytest.fixture
def nc(tools):
    """Skip the test without an nc that the scripts can use."""
    program = shutil.which("nc", path=f"{tools}:{os.environ['PATH']}")
    if not program:
        missing("there is no nc (a busybox can be named by MLGEN_BUSYBOX)")
    if not is_usable(program):
        missing("another nc is needed, such as netcat-openbsd's")


def until(condition):
    """Wait for a condition."""
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


@pytest.fixture
def wait(run, nc):  # noqa: ARG001 - a fixture of a fixture
    def wait(peers, own="nobody", timeout=PATIENCE):
        script = ROOT / "templates/scripts/wait-for-peers.sh"
        return run(script, MLGEN_PEERS=peers, MLGEN_SELF=own, MLGEN_TIMEOUT=str(timeout))

    return wait


@pytest.fixture
def port():
    """A port that is reserved and refuses connections."""
    with socket.socket() as reserved:
        reserved.bind(("", 0))
        yield reserved.getsockname()[1]


@pytest.fixture
def open_port():
    """A port that accepts connections on every address of this machine."""
    with socket.create_server(("", 0), backlog=64) as server:
        yield server.getsockname()[1]


def program(path, text):
    path.unlink(missing_ok=True)  # it may be a link to the busybox of this machine
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


def relocated(name, folder, **paths):
    """Copy a script to the test's folder, with the given absolute paths replaced."""
    text = (ROOT / "templates/scripts" / name).read_text()
    for old, new in paths.items():
        assert old in text
        text = text.replace(old, str(new))
    (folder / name).write_text(text)
    return folder / name


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_a_script_has_a_shebang_and_only_ascii_without_tabs(script):
    text = script.read_text()

    assert text.startswith("#!/bin/sh\n# ")
    assert "\t" not in text
    assert text.isascii()
    assert text.endswith("\n")


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_every_shell_can_parse_the_script(script, shell):
    subprocess.run([*shell, "-n", str(script)], check=True)


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_shellcheck_reports_no_problems(script):
    installed = Path(sys.executable).parent / "shellcheck"
    shellcheck = str(installed) if installed.exists() else shutil.which("shellcheck")
    if not shellcheck:
        missing("there is no shellcheck")
    command = [shellcheck, "-s", "sh", "-x", "-P", "SCRIPTDIR", script]

    result = subprocess.run(command, capture_output=True, text=True, check=False)

    assert "" == result.stdout


def test_waiting_ends_when_all_peers_listen(wait, open_port):
    assert (0, "all peers are reachable\n", "") == wait(
        f"127.0.0.[1-2]:{open_port} localhost:{open_port}"
    )


def test_waiting_for_no_peers_ends_immediately(wait):
    assert (0, "all peers are reachable\n", "") == wait("")


def test_the_timeout_message_lists_exactly_the_missing_peers(wait, port, open_port):
    peers = f"127.0.0.1:{open_port} 127.0.0.[2-3]:{port} 127.0.0.4:{open_port}"

    status, out, err = wait(peers, timeout=2)

    missing = f"2 of 4 peers: 127.0.0.2:{port}, 127.0.0.3:{port}"
    assert 75 == status
    assert f"waiting for {missing}\n" == out
    assert f"timed out after 2s waiting for {missing}\n" == err


def test_only_the_first_ten_missing_peers_are_listed(wait, port):
    status, _, err = wait(f"127.0.0.[1-12]:{port}", timeout=0)

    ten = ", ".join(f"127.0.0.{i}:{port}" for i in range(1, 11))
    assert 75 == status
    assert f"timed out after 0s waiting for 12 of 12 peers: {ten} and 2 more\n" == err


def test_all_of_ten_missing_peers_are_listed(wait, port):
    _, _, err = wait(f"127.0.0.[1-10]:{port}", timeout=0)

    assert err.endswith(f" 127.0.0.10:{port}\n")


def test_a_replica_waits_only_for_its_own_name_to_resolve(wait, port, open_port):
    peers = f"localhost:{port} 127.0.0.1:{open_port}"

    assert (0, "all peers are reachable\n", "") == wait(peers, own="localhost")
    assert 75 == wait(peers, own="local", timeout=0)[0]


def test_a_replica_recognizes_its_own_name_with_any_domain(wait):
    _, _, err = wait("mnist-ps-[0-0].mnist.invalid:2222", own="mnist-ps-0", timeout=0)

    assert err.endswith("waiting for 1 of 1 peers: mnist-ps-0.mnist.invalid\n")


@pytest.fixture
def follow(start, tools, tmp_path, supervisor, nc):  # noqa: ARG001
    """Function that lets the sidecar follow a file. `ticks` counts its pauses, which are short."""
    command = ["wget", "-qO-", "--header=Authorization: x", "--post-data={}", "-T", "10"]
    if not shutil.which("wget"):
        missing("there is no wget")
    if subprocess.run([*command, f"{supervisor.url}/progress"], check=False).returncode:
        missing("another wget is needed, with --post-data")
    supervisor.posts.clear()
    pause = f"printf . >> {tmp_path}/ticks; exec {shutil.which('sleep')} 0.1"
    program(tools / "sleep", pause)
    (tmp_path / "uid").write_text("token")
    script = relocated("supervised.sh", tmp_path, **{"/mlgen/pod": tmp_path, "/mlgen/run": "/no"})

    def follow(file):
        file.write_text("earlier")
        return start(script, MLGEN_SUPERVISOR=supervisor.url, MLGEN_FILE=str(file))

    return follow


@pytest.fixture
def supervisor():
    """A server, with the tokens and bodies that were posted. It rejects text that is not JSON."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            server.posts.append((self.path, self.headers["Authorization"], body))
            self.send_response(400 if body == "{" else 200)
            self.end_headers()

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.url, server.posts = f"http://127.0.0.1:{server.server_port}", []
    Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize(
    ("text", "bodies"),
    [("", ["{}"]), ("step 7", ["{}"]), ('{"a": 1}', ['{"a": 1}']), ("{", ["{", "{}"])],
)
def test_each_change_of_a_file_is_reported_once(follow, tmp_path, supervisor, text, bodies):
    file, ticks = tmp_path / "progress", tmp_path / "ticks"
    process = follow(file)
    seconds = count()  # until the first change that the script sees
    until(lambda: os.utime(file, (0, next(seconds))) or supervisor.posts)

    file.write_text(text)
    seen = len(ticks.read_text())
    until(lambda: len(ticks.read_text()) >= seen + 4)
    process.terminate()

    assert process.wait(PATIENCE) == 0
    posts = [("/progress", "Bearer token", body) for body in bodies]
    assert posts == supervisor.posts[-len(posts) :]
    assert {("/progress", "Bearer token", "{}")} == {*supervisor.posts[: -len(posts)]}


def test_a_replica_is_not_confused_with_one_whose_index_has_the_same_prefix(wait):
    _, _, err = wait("mnist-ps-1[0-1].invalid:2222", own="mnist-ps-1", timeout=0)

    assert err.endswith("2 of 2 peers: mnist-ps-10.invalid:2222, mnist-ps-11.invalid:2222\n")


def test_a_peer_without_a_port_only_has_to_resolve(wait):
    assert (0, "all peers are reachable\n", "") == wait("localhost 127.0.0.1")


def test_a_peer_whose_name_does_not_resolve_is_missing(wait):
    status, _, err = wait("localhost nobody-here.invalid", timeout=1)

    assert 75 == status
    assert "timed out after 1s waiting for 1 of 2 peers: nobody-here.invalid\n" == err


def test_a_peer_pattern_is_not_expanded_to_file_names(wait, tmp_path, monkeypatch):
    (tmp_path / "n1.invalid").touch()
    monkeypatch.chdir(tmp_path)

    assert wait("n[1].invalid", timeout=0)[2].endswith("waiting for 1 of 1 peers: n[1].invalid\n")


@pytest.mark.needs("dash")  # busybox runs its own nc, not the test's
def test_only_one_missing_peer_is_tried_until_there_is_something_to_report(tools, tmp_path):
    """Sleeps return at once, and the first peer is reachable at the fourth try."""
    program(tools / "sleep", "")
    program(
        tools / "nc",
        f'cd "{tmp_path}"; for host; do case $host in p*) echo $host >>tries;; esac; done\n'
        "[ $(wc -l <tries) -ge 8 ] || { echo bad address; exit 1; }",
    )
    path = f"{tools}:{os.environ['PATH']}"
    command = [*SHELLS["dash"], str(ROOT / "templates/scripts/wait-for-peers.sh")]
    env = {"PATH": path, "MLGEN_PEERS": "p[0-4]"}
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=True)

    waiting = "waiting for 5 of 5 peers: p0, p1, p2, p3, p4\n"
    assert f"{waiting}all peers are reachable\n" == done.stdout
    tries = (tmp_path / "tries").read_text().split()
    assert ["p0", "p1", "p2", "p3", "p4", *["p0"] * 3, "p1", "p2", "p3", "p4"] == tries


@pytest.mark.usefixtures("wait")
def test_the_script_waits_for_a_peer_that_listens_late(start):
    script = ROOT / "templates/scripts/wait-for-peers.sh"
    with socket.socket() as late:
        late.bind(("127.0.0.1", 0))
        peer = f"127.0.0.1:{late.getsockname()[1]}"
        process = start(script, MLGEN_PEERS=peer, MLGEN_SELF="x", MLGEN_TIMEOUT=str(PATIENCE))
        progress = process.stdout.readline()
        late.listen()
        out, err = process.communicate(timeout=PATIENCE)

    assert f"waiting for 1 of 1 peers: {peer}\n" == progress
    assert (0, "all peers are reachable\n", "") == (process.returncode, out, err)


@pytest.mark.needs("dash")  # busybox runs its own date, not the test's
@pytest.mark.parametrize(
    ("script", "peers", "missing"),
    [
        ("wait-for-peers.sh", "nobody.invalid", "1 of 1 peers: nobody.invalid"),
        ("deliver-kubectl.sh", "pi-worker-0", "workers to start: pi-worker-0"),
    ],
)
def test_missing_peers_are_reported_once_a_minute_without_a_timeout(
    script, peers, missing, tools, tmp_path
):
    """The clock gains 25 s at each read, and sleeps return at once."""
    program(
        tools / "date",
        f'cd "{tmp_path}"; echo >>reads; echo $(($(wc -l <reads) * 25))\n'
        "[ $(wc -l <reads) -lt 40 ] || kill $PPID",
    )
    program(tools / "kubectl", "")
    for name in ("sleep", "cp"):
        program(tools / name, "")
    program(tools / "nc", "echo bad address; exit 1")
    path = f"{tools}:{os.environ['PATH']}"
    names = dict.fromkeys(("MLGEN_PEERS", "MLGEN_PODS"), peers)
    names |= dict.fromkeys(("MLGEN_SELF", "MLGEN_TARGET", "MLGEN_CONTAINER"), "x")
    command = [*SHELLS["dash"], str(ROOT / "templates/scripts" / script)]
    done = subprocess.run(
        command, env={"PATH": path, **names}, capture_output=True, text=True, check=False
    )

    lines = done.stdout.splitlines()
    assert {f"waiting for {missing}"} == set(lines)
    assert 5 < len(lines) < 20


@pytest.fixture
def deliver(run, tools, tmp_path):
    """Run the script with a stub kubectl. Each call prints the next of `answers`."""
    target = tmp_path / "kube"
    target.mkdir()

    def deliver(pods, answers, timeout=PATIENCE, error=""):
        (tmp_path / "error").write_text(error)
        for number, answer in enumerate(answers, 1):
            (tmp_path / f"answer{number}").write_text(answer)
        program(
            tools / "kubectl",
            f'cd "{tmp_path}"; echo "$@" >>calls; n=$(wc -l <calls)\n'
            f"n=$((n < {len(answers)} ? n : {len(answers)})); cat error >&2; cat answer$n",
        )
        script = ROOT / "templates/scripts/deliver-kubectl.sh"
        result = run(
            script,
            MLGEN_TARGET=str(target),
            MLGEN_PODS=pods,
            MLGEN_CONTAINER="main",
            MLGEN_TIMEOUT=str(timeout),
        )
        calls = (tmp_path / "calls").read_text().splitlines()
        return result, [call.partition(" -o ")[0] for call in calls]

    deliver.target = target
    return deliver


def test_kubectl_is_copied_and_executable(deliver, tools):
    result, _ = deliver("pi-worker-0", ["pi-worker-0=true"])

    assert (0, "all workers have started\n", "") == result
    assert (tools / "kubectl").read_bytes() == (deliver.target / "kubectl").read_bytes()
    assert os.access(deliver.target / "kubectl", os.X_OK)


def test_only_workers_that_have_not_started_are_polled_again(deliver):
    answers = ["pi-worker-1=true pi-worker-0=false =", "pi-worker-0=true pi-worker-2=true ="]

    result, calls = deliver("pi-worker-[0-2]", answers)

    get = "get pod --ignore-not-found"
    assert 0 == result[0]
    assert [
        f"{get} pi-worker-0 pi-worker-1 pi-worker-2",
        f"{get} pi-worker-0 pi-worker-2",
    ] == calls
    waiting = "waiting for workers to start: pi-worker-0 pi-worker-2\n"
    assert f"{waiting}all workers have started\n" == result[1]


def test_workers_that_never_start_are_listed(deliver):
    answer = " ".join(f"pi-worker-{i}=true" for i in range(10)) + " ="

    result, _ = deliver("pi-worker-[0-10]", [answer], timeout=0)

    expected = (75, "timed out after 0s waiting for workers to start: pi-worker-10\n")
    assert expected == (result[0], result[2])


def test_the_script_waits_for_a_pod_that_does_not_exist_yet(deliver):
    result, _ = deliver("pi-worker-0", ["", "pi-worker-0=true"])

    expected = "waiting for workers to start: pi-worker-0\nall workers have started\n"
    assert (0, expected, "") == result


def test_kubectl_errors_are_reported(deliver):
    result, _ = deliver("pi-worker-0", [""], timeout=0, error="pods is forbidden\n")

    assert 75 == result[0]
    assert result[2].startswith("pods is forbidden\n")


def test_workers_whose_names_resolve_are_printed_with_their_slots(run, tools, tmp_path):
    script = relocated("discover_hosts.sh", tmp_path)
    (tmp_path / "elastic-hosts").write_text(
        "".join(f"resnet-worker-{i}:4 resnet-worker-{i}.resnet\n" for i in range(4))
    )
    program(
        tools / "getent",
        'case $2 in *-worker-[13].resnet) echo "10.0.0.1 $2";; *) exit 2;; esac',
    )

    assert (0, "resnet-worker-1:4\nresnet-worker-3:4\n", "") == run(script)


def test_no_available_worker_is_not_an_error(run, tools, tmp_path):
    script = relocated("discover_hosts.sh", tmp_path)
    (tmp_path / "elastic-hosts").write_text("resnet-worker-0:4 resnet-worker-0.resnet\n")
    program(tools / "getent", "exit 2")

    assert (0, "", "") == run(script)


PORTS = {"MLGEN_SSH_PORT": "2222", "MLGEN_SSHD_PORT": "20022"}
"""Two different ports, as with the host network."""

ATTEMPTS = {"MLGEN_SSH_ATTEMPTS": "10"}

HOSTS = {"MLGEN_SSH_HOSTS": "cfd-worker-*"}


@pytest.fixture
def ssh(run, tmp_path):
    """Run the script with keys that are world-readable, as in a mounted Secret."""
    keys, home = tmp_path / "keys", tmp_path / "home/.ssh"
    keys.mkdir()
    home.mkdir(parents=True)
    (keys / "id_rsa").write_text("private\n")
    (keys / "id_rsa.pub").write_text("public\n")
    for key in keys.iterdir():
        key.chmod(0o444)
    own, passwd = tmp_path / "ssh_config", tmp_path / "passwd"
    passwd.write_text("root:x:0:0::/root:/bin/sh\nmpi:x:1000:1000::/home/mpi:/bin/sh\n")
    paths = {"/etc/passwd >": f"{passwd} >", "/mlgen/ssh/": f"{keys}/"}
    paths |= {f"{test} /etc/ssh/ssh_config": f"{test} {own}" for test in ("-r", "cat")}
    script = relocated("setup-ssh.sh", tmp_path, **paths)

    def ssh(**ports):
        result = run(script, MLGEN_SSH_FOLDER=str(home), **ATTEMPTS, **(ports or PORTS))
        return result, home

    return ssh


def test_copied_keys_are_accessible_only_to_their_owner(ssh):
    result, home = ssh()

    assert (0, "", "") == result
    assert {"id_rsa": "private\n", "id_rsa.pub": "public\n", "authorized_keys": "public\n"} == {
        name: (home / name).read_text() for name in ("id_rsa", "id_rsa.pub", "authorized_keys")
    }
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in home.iterdir()}
    assert {name: modes.pop(name) for name in ("config", "passwd")} == dict.fromkeys(
        ("config", "passwd"), 0o644
    )
    assert {0o600} == set(modes.values())


def test_the_ssh_configuration_sets_the_port_and_the_key(ssh):
    _, home = ssh()

    config = (home / "config").read_text()
    assert f"  Port 2222\n  ConnectionAttempts 10\n  IdentityFile {home}/id_rsa\n" in config
    assert f"Port 20022\nHostKey {home}/id_rsa\n" in (home / "sshd_config").read_text()


def test_without_a_port_that_of_the_image_applies(ssh):
    result, home = ssh(MLGEN_SSH_PORT="")

    assert (0, "", "") == result
    assert "Host *\n\n  ConnectionAttempts" in (home / "config").read_text()
    assert "Port 2222\n" in (home / "sshd_config").read_text()


def test_the_ssh_configuration_of_the_image_sets_other_options(ssh, tmp_path):
    (tmp_path / "ssh_config").write_text("Port 22\nCompression yes\n")
    _, home = ssh()

    assert (home / "config").read_text().endswith("  LogLevel ERROR\nPort 22\nCompression yes\n")


@pytest.mark.parametrize(("uid", "entries"), [(1000, 0), (1234, 1)])
def test_a_user_without_an_entry_in_passwd_gets_one(uid, entries, ssh, tools):
    """ssh and sshd reject users without an entry. 1000 has one in the image."""
    program(tools / "id", f"echo {uid}")
    _, home = ssh()

    added = (home / "passwd").read_text().splitlines()[2:]
    assert added == [f"mlgen:x:{uid}:{uid}::/:/bin/sh"] * entries


def test_an_entry_without_a_shell_is_replaced(ssh, tools, tmp_path):
    """CRI-O writes such an entry for a user that OpenShift assigns."""
    users = ["root:x:0:0::/root:/bin/sh", "1000680000:x:1000680000:0::/:/sbin/nologin"]
    (tmp_path / "passwd").write_text("\n".join(users) + "\n")
    program(tools / "id", "test $1 = -u && echo 1000680000 || echo 0")
    _, home = ssh()

    entries = (home / "passwd").read_text().splitlines()
    assert [users[0], "mlgen:x:1000680000:0::/:/bin/sh"] == entries


VALUES = {
    "NCCL_DEBUG": "INFO",
    "TOKEN": "a 'quoted' \"$value\" `id` \\ =\nsecond line",
    "command": "the name of a variable that a script could use",
    "PATH": os.environ["PATH"],
}


@pytest.fixture
def session(run, tmp_path):
    """Function that runs a command as in a session of a worker's sshd."""
    program(tmp_path / "sshd", f'echo "$@" >{tmp_path}/started')
    script = relocated("start-sshd.sh", tmp_path, **{"/usr/sbin/sshd": tmp_path / "sshd"})
    (tmp_path / "environment").write_text("export STALE=1\n")
    (tmp_path / "environment").chmod(0o600)

    def session(command, *, started=True):
        if started:
            assert run(script, MLGEN_SSH_FOLDER=str(tmp_path), **VALUES) == (0, "", "")
        else:
            (tmp_path / "environment").unlink()
        return run(
            ROOT / "templates/scripts/ssh-session.sh",
            str(tmp_path),
            SSH_ORIGINAL_COMMAND=command,
            SHELL="/bin/sh",
            NCCL_DEBUG="of the session",
        )

    return session


def test_a_session_has_the_variables_of_the_container(session, tmp_path):
    read = f"{sys.executable} -c 'import json, os; print(json.dumps(dict(os.environ)))'"
    status, out, err = session(read)

    variables = json.loads(out)
    assert (0, "") == (status, err)
    assert VALUES == {name: variables.get(name) for name in VALUES}
    assert {"STALE", "SSH_ORIGINAL_COMMAND"}.isdisjoint(variables)
    assert f"-De -f {tmp_path}/sshd_config\n" == (tmp_path / "started").read_text()
    assert 0o600 == stat.S_IMODE((tmp_path / "environment").stat().st_mode)


def test_the_command_of_a_session_takes_precedence(session):
    assert (3, "WARN\n", "") == session("export NCCL_DEBUG=WARN; echo $NCCL_DEBUG; exit 3")


def test_a_session_of_another_sshd_keeps_its_variables(session):
    assert (0, "of the session\n", "") == session("echo $NCCL_DEBUG", started=False)


def test_ssh_setup_can_be_repeated(ssh):
    """An init container runs again when its node restarts."""
    ssh()

    assert (0, "", "") == ssh()[0]


def options_of(home, host):
    """Return the options that ssh reads from the configuration for a host."""
    command = ["ssh", "-G", "-F", str(home / "config"), host]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    return dict(line.split(" ", 1) for line in lines)


@pytest.mark.needs("ssh")
def test_ssh_accepts_the_configuration(ssh):
    _, home = ssh()

    options = options_of(home, "worker-0")

    assert "2222" == options["port"]
    assert f"{home}/id_rsa" == options["identityfile"]
    assert "false" == options["stricthostkeychecking"]


@pytest.mark.needs("ssh")
@pytest.mark.parametrize(
    ("host", "strict"),
    [("cfd-worker-0.cfd", "true"), ("cfd-worker-1", "true"), ("git.example", "false")],
)
def test_hosts_of_the_job_must_have_its_key(host, strict, ssh):
    result, home = ssh(**PORTS, **HOSTS)

    options = options_of(home, host)

    assert (0, "", "") == result
    assert strict == options["stricthostkeychecking"]
    assert (f"{home}/known_hosts" == options["globalknownhostsfile"]) == (strict == "true")
    assert "* public\n" == (home / "known_hosts").read_text()


def test_missing_keys_are_an_error(run, tmp_path):
    script = relocated("setup-ssh.sh", tmp_path, **{"/mlgen/ssh": tmp_path / "nowhere"})

    status, _, err = run(script, MLGEN_SSH_FOLDER=str(tmp_path), **ATTEMPTS, **PORTS)

    assert 0 != status
    assert "nowhere/id_rsa" in err


@pytest.mark.parametrize(
    ("words", "command"),
    [
        (["orted", "-mca", "ess", "env"], "orted -mca ess env"),
        (["sh -c 'echo  a'", "b"], "sh -c 'echo  a' b"),
        (['"$HOME"', "*", ";", "\\"], '"$HOME" * ; \\'),
        (["--daemonize", ""], "--daemonize "),
    ],
)
def test_a_command_reaches_the_shell_of_the_worker_as_with_rsh(words, command, run, tmp_path):
    program(tmp_path / "kubectl", "for word; do printf '<%s>' \"$word\"; done")
    script = relocated("kubexec.sh", tmp_path, **{"/opt/kube/kubectl": tmp_path / "kubectl"})

    status, out, err = run(script, "pi-worker-1", *words)

    assert (0, "") == (status, err)
    assert f"<exec><pi-worker-1><--></bin/sh><-c><{command}>" == out


def test_mpirun_gets_the_output_and_exit_status_of_the_command(run, tmp_path):
    program(tmp_path / "kubectl", 'while [ "$1" != -- ]; do shift; done; shift; exec "$@"')
    script = relocated("kubexec.sh", tmp_path, **{"/opt/kube/kubectl": tmp_path / "kubectl"})

    assert (7, "to stdout\n", "to stderr\n") == run(
        script, "pi-worker-0", "echo", "to stdout;", "echo to stderr >&2;", "exit 7"
    )


@pytest.fixture
def agent(run, tmp_path):
    """Run kubexec.sh with a stub kubectl, which answers `get` with the next of `answers`."""
    script = relocated("kubexec.sh", tmp_path, **{"/opt/kube/kubectl": tmp_path / "kubectl"})

    def agent(answers, **env):
        for number, answer in enumerate(answers, 1):
            (tmp_path / f"answer{number}").write_text(answer)
        program(
            tmp_path / "kubectl",
            f'cd "{tmp_path}"; [ $1 = get ] || {{ echo "$@"; exit; }}; echo "$@" >>calls\n'
            f"n=$(wc -l <calls); cat answer$((n < {len(answers)} ? n : {len(answers)}))",
        )
        result = run(script, "pi-worker-0", "orted", MLGEN_CONTAINER="mpi", **env)
        return result, (tmp_path / "calls").read_text().splitlines()

    return agent


def test_the_agent_waits_until_the_container_has_started(agent):
    (status, out, err), calls = agent(["", "false", "true"])

    assert (0, "exec pi-worker-0 -- /bin/sh -c orted\n", "") == (status, out, err)
    assert 3 == len(calls)
    assert "get pod --ignore-not-found pi-worker-0" in calls[0]
    assert '?(@.name=="mpi")' in calls[0]


def test_the_agent_reports_a_worker_that_never_starts(agent):
    (status, out, err), _ = agent([""], MLGEN_TIMEOUT="1")

    expected = (75, "", "timed out after 1s waiting for pi-worker-0 to start\n")
    assert expected == (status, out, err)


@pytest.mark.needs("dash")  # busybox runs its own date, not the test's
def test_the_agent_reports_a_missing_worker_once_a_minute(tools, tmp_path):
    """The clock gains 5 s at each read, and sleeps return at once."""
    program(
        tools / "date",
        f'cd "{tmp_path}"; echo >>reads; echo $((1000 + $(wc -l <reads) * 5))\n'
        "[ $(wc -l <reads) -lt 40 ] || kill $PPID",
    )
    program(tools / "sleep", "")
    program(tmp_path / "kubectl", "")
    script = relocated("kubexec.sh", tmp_path, **{"/opt/kube/kubectl": tmp_path / "kubectl"})
    env = {"PATH": f"{tools}:{os.environ['PATH']}", "MLGEN_CONTAINER": "mpi"}
    command = [*SHELLS["dash"], str(script), "pi-worker-0", "orted"]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)

    assert ["waiting for pi-worker-0 to start"] * 4 == done.stderr.splitlines()


@pytest.fixture
def repository(tmp_path):
    """A repository with two commits: tag v1 with the file `old`, then main with the file `new`."""
    folder = tmp_path / "repository"

    def git(*words):
        author = ["-c", "user.name=x", "-c", "user.email=x@example"]
        subprocess.run(["git", *author, *words], cwd=folder, check=True, capture_output=True)

    folder.mkdir()
    git("init", "-q", "-b", "main")
    (folder / "old").write_text("1\n")
    git("add", ".")
    git("commit", "-m", "first")
    git("tag", "v1")
    git("rm", "-q", "old")
    (folder / "new").write_text("2\n")
    git("add", ".")
    git("commit", "-m", "second")
    return folder


@pytest.fixture
def sync(run, tmp_path):
    """Run the script as the pod does, with the folder of keys in `sync.keys`."""
    target, keys = tmp_path / "code", tmp_path / "keys"
    target.mkdir()
    keys.mkdir()
    script = relocated("sync-code.sh", tmp_path, **{"/mlgen/git": keys})

    def sync(repository, revision="HEAD", timeout=PATIENCE, **env):
        names = {"MLGEN_REPOSITORY": str(repository), "MLGEN_REVISION": revision}
        names |= {"MLGEN_FOLDER": str(target), "MLGEN_TIMEOUT": str(timeout)}
        status, out, err = run(script, **names, **env)
        return status, out, err, sorted(p.name for p in target.iterdir() if p.name != ".git")

    sync.keys = keys
    return sync


def test_the_default_branch_or_a_tag_is_checked_out(sync, repository):
    status, out, err, files = sync(repository)

    assert (0, "", ["new"]) == (status, err, files)
    assert out.endswith(" second\n")

    status, out, err, files = sync(repository, "v1")

    assert (0, "", ["old"]) == (status, err, files)
    assert out.endswith(" first\n")


def test_syncing_again_overwrites_local_changes(sync, repository, tmp_path):
    """An init container runs again when its node restarts."""
    sync(repository)
    (tmp_path / "code/new").write_text("changed\n")

    assert 0 == sync(repository)[0]
    assert "2\n" == (tmp_path / "code/new").read_text()


@pytest.fixture
def nested(repository, tmp_path, monkeypatch):
    """A repository with the first one as a submodule, and a file in Git LFS."""
    monkeypatch.setenv("GIT_ALLOW_PROTOCOL", "file")
    folder = tmp_path / "nested"
    folder.mkdir()

    def git(*words):
        author = "-c", "user.name=t", "-c", "user.email=t@example.com"
        subprocess.run(["git", *author, *words], cwd=folder, check=True, capture_output=True)

    git("init", "-q", "-b", "main")
    git("submodule", "add", f"../{repository.name}", "lib")
    if shutil.which("git-lfs"):
        git("lfs", "install", "--local")
        git("lfs", "track", "*.bin")
        (folder / "weights.bin").write_text("0.5 0.25")
        git("add", ".")
    git("commit", "-m", "first")
    return folder


def test_submodules_are_cloned_on_request(sync, nested, tmp_path):
    url = f"file://{nested}"

    assert 0 == sync(url)[0]
    assert not list((tmp_path / "code/lib").iterdir())
    status, _, err, _ = sync(url, MLGEN_SUBMODULES="true", GIT_ALLOW_PROTOCOL="file")

    assert (0, "2\n") == (status, (tmp_path / "code/lib/new").read_text()), err
    # The training container cannot leave a repository with hooks in place of the submodule.
    shutil.rmtree(tmp_path / "code/lib")
    subprocess.run(["git", "init", "-q", tmp_path / "code/lib"], check=True)
    ran = tmp_path / "ran"
    program(tmp_path / "code/lib/.git/hooks/post-checkout", f"touch {ran}")
    status, _, err, _ = sync(url, MLGEN_SUBMODULES="true", GIT_ALLOW_PROTOCOL="file")
    assert (0, False) == (status, ran.exists()), err


@pytest.mark.needs("git-lfs")
def test_files_in_git_lfs_are_downloaded_on_request(sync, nested, tmp_path):
    url, weights = f"file://{nested}", tmp_path / "code/weights.bin"

    assert 0 == sync(url)[0]
    assert weights.read_text().startswith("version https://git-lfs.github.com/spec")
    status, _, err, _ = sync(url, MLGEN_LFS="true")

    assert (0, "0.5 0.25") == (status, weights.read_text()), err


def test_a_repository_that_cannot_be_fetched_is_reported(sync, tmp_path):
    status, out, err, files = sync(tmp_path / "nowhere", "main", timeout=1)

    assert (75, "", []) == (status, out, files)
    assert "nowhere" in err
    assert err.endswith(f"timed out after 1s fetching main from {tmp_path}/nowhere\n")


@pytest.mark.parametrize(
    ("files", "options"),
    [
        ({"ssh-privatekey": "x"}, "-o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null"),
        (
            {"ssh-privatekey": "x", "known_hosts": "y"},
            "-o StrictHostKeyChecking=yes -o UserKnownHostsFile={keys}/known_hosts",
        ),
    ],
)
def test_git_uses_the_ssh_key_and_known_hosts(files, options, sync, tools):
    for name, text in files.items():
        (sync.keys / name).write_text(text)
    program(tools / "git", 'case $1 in fetch) echo "$GIT_SSH_COMMAND" ;; esac')

    _, out, err, _ = sync("git@git.example:x.git")

    assert ("warning: the host key of the Git server is not checked" in err) == (len(files) == 1)
    key = f"ssh -i {sync.keys}/ssh-privatekey -o IdentitiesOnly=yes "
    assert key + options.format(keys=sync.keys) == out.strip()


@pytest.fixture
def once(tools, tmp_path):
    """Let the time be over after one attempt, however long it takes."""
    program(tools / "sleep", f"touch {tmp_path}/over")
    date = shutil.which("date")
    program(tools / "date", f'[ -e {tmp_path}/over ] && echo 9999999999 || exec {date} "$@"')


@pytest.mark.usefixtures("once")
@pytest.mark.parametrize(
    ("url", "revision"),
    [
        ("--upload-pack=touch {ran}", "HEAD"),
        ("{url}", "--upload-pack=touch {ran}"),
        ("ext::sh -c touch% {ran}", "HEAD"),
    ],
)
def test_nothing_in_a_repository_or_revision_is_run(url, revision, sync, repository, tmp_path):
    names = {"ran": tmp_path / "ran", "url": repository}
    configuration = tmp_path / "gitconfig"
    configuration.write_text("[protocol]\nallow = always\n")

    status, _, err, files = sync(
        url.format(**names),
        revision.format(**names),
        timeout=30,
        GIT_CONFIG_GLOBAL=str(configuration),
    )

    assert (75, []) == (status, files)
    assert "fatal: " in err
    assert not (tmp_path / "ran").exists()


def test_what_the_training_container_left_in_git_is_not_run(sync, repository, tmp_path):
    """The volume remains when the init containers run again, and then the keys are mounted."""
    sync(repository)
    git, ran = tmp_path / "code/.git", tmp_path / "ran"
    for name in ("post-checkout", "post-index-change", "reference-transaction"):
        program(git / "hooks" / name, f"touch {ran}")
    with (git / "config").open("a") as file:
        file.write(
            f'[core]\nfsmonitor = "touch {ran}; false"\n[filter "x"]\nsmudge = touch {ran}\n'
        )
    (git / "info").mkdir(exist_ok=True)
    (git / "info/attributes").write_text("* filter=x\n")
    (tmp_path / "code/result").write_text("of the training\n")

    status, _, err, files = sync(repository, "v1")

    assert (0, "", ["old", "result"]) == (status, err, files)
    assert not ran.exists()


def test_a_password_is_passed_to_git_and_not_printed_on_stderr(sync, tools):
    password = r"hunter 2 * \n $(false) ' \" `"
    (sync.keys / "username").write_text("ci\n")
    (sync.keys / "password").write_text(password)
    git = shutil.which("git")
    ask = f"printf 'protocol=%s\\nhost=git.example:80\\n\\n' $scheme | {git} credential fill"
    program(tools / "git", f"case $1 in fetch) for scheme in $SCHEMES; do {ask}; done ;; esac")

    for url, schemes in (("https", "https"), ("http", "http https")):
        _, out, err, _ = sync(f"{url}://a:b@git.example:80/x.git", SCHEMES=schemes)

        assert schemes.count("h") == out.count(f"username=ci\npassword={password}\n")
        assert "hunter" not in err


class Git(BaseHTTPRequestHandler):
    """A Git server that requires a password. `/moved` redirects to the other server."""

    def do_GET(self):
        self.close_connection = True
        self.server.seen.append(self.headers["Authorization"])
        path, _, query = self.path.partition("?")
        if path.startswith("/moved"):
            to = self.path.replace("/moved", "/repository")
            self.end(302, "Location", f"{self.server.other}{to}")
        elif not self.headers["Authorization"]:
            self.end(401, "WWW-Authenticate", 'Basic realm="git"')
        else:
            self.serve(path, query)

    do_POST = do_GET  # noqa: N815

    def serve(self, path, query):
        """Answer as a CGI server."""
        body = self.rfile.read(int(self.headers["Content-Length"] or 0))
        if self.headers["Content-Encoding"] == "gzip":
            body = gzip.decompress(body)
        env = {"GIT_PROJECT_ROOT": self.server.root, "GIT_HTTP_EXPORT_ALL": "1"}
        env |= {"PATH_INFO": path, "QUERY_STRING": query, "REQUEST_METHOD": self.command}
        env |= {"CONTENT_TYPE": self.headers["Content-Type"] or "", "PATH": os.environ["PATH"]}
        env |= {"GIT_PROTOCOL": self.headers["Git-Protocol"] or "", "REMOTE_USER": "ci"}
        command = ["git", "-c", "safe.directory=*", "http-backend"]
        done = subprocess.run(command, env=env, input=body, capture_output=True, check=False)
        self.wfile.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\n" + done.stdout)

    def end(self, status, name, value):
        self.send_response(status)
        for header in ((name, value), ("Content-Length", "0"), ("Connection", "close")):
            self.send_header(*header)
        self.end_headers()

    def log_message(self, *_):
        """Print no requests."""


@pytest.fixture
def servers(tmp_path):
    """Two Git servers with the repositories in the folder of the test."""
    servers = [ThreadingHTTPServer(("127.0.0.1", 0), Git) for _ in range(2)]
    for server, other in zip(servers, reversed(servers), strict=True):
        server.url = f"http://127.0.0.1:{server.server_port}"
        server.other, server.root = f"http://127.0.0.1:{other.server_port}", str(tmp_path)
        server.seen = []
        Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    yield servers
    for server in servers:
        server.shutdown()
        server.server_close()


POINTER = f"version https://git-lfs.github.com/spec/v1\noid sha256:{'0' * 64}\nsize 1\n"


@pytest.mark.usefixtures("once")
@pytest.mark.parametrize("case", ["redirect", "submodule", "lfs"])
def test_only_the_host_of_the_repository_gets_the_password(case, sync, servers, repository):
    own, other = servers
    (sync.keys / "username").write_text("ci\n")
    (sync.keys / "password").write_text("hunter2")
    if case == "lfs":
        if not shutil.which("git-lfs"):
            missing("there is no git-lfs")
        (repository / ".lfsconfig").write_text(f"[lfs]\n\turl = {other.url}/lfs\n")
        (repository / ".gitattributes").write_text("*.bin filter=lfs\n")
        (repository / "a.bin").write_text(POINTER)
    (repository / ".gitmodules").write_text(
        f'[submodule "lib"]\n\tpath = lib\n\turl = {other.url}/lib\n'
    )
    link = ["update-index", "--add", "--cacheinfo", f"160000,{'1' * 40},lib"]
    author = ["-c", "user.name=x", "-c", "user.email=x@example", "-c", "filter.lfs.clean=cat"]
    for words in (["add", "."], link, ["commit", "-qm", "third"]):
        subprocess.run(["git", *author, *words], cwd=repository, check=True)

    assert (0, "") == sync(f"{own.url}/repository")[::2]
    names = {"submodule": "MLGEN_SUBMODULES", "lfs": "MLGEN_LFS"}
    folder = "moved" if case == "redirect" else "repository"
    options = {names[case]: "true"} if case in names else {}

    assert 0 != sync(f"{own.url}/{folder}", timeout=30, **options)[0]
    assert any(own.seen)
    assert {None} == set(other.seen)


RAY = """#!/bin/sh
# Pretends to be Ray: the state of each submission is a file. Logs end when training ends.
cd "$STATES" || exit 9
echo "$*" >>calls
case "$2 $3" in
  "submit --submission-id")
    [ ! -e "$4" ] || exit 1
    echo "$NEXT" >"$4"
    [ "$NEXT" = succeeded ]
    ;;
  status*)
    case $(cat "$3" 2>&1) in
      RUNNING) echo "Status for job '$3': RUNNING" ;;
      succeeded) echo "Job '$3' succeeded" ;;
      failed) echo "Job '$3' failed" ;;
      *) exit 1 ;;
    esac
    ;;
  logs*) echo "$NEXT" >"$4" ;;
  delete*) rm "$3" ;;
esac
"""


NODES = """#!/bin/sh
# Pretends to ask the dashboard: with each call, one more node has joined the cluster.
cd "$STATES" || exit 9
[ ! -e calls ] || exit 1
echo asked >>nodes
grep -c . nodes
"""


@pytest.mark.parametrize(
    ("before", "after", "calls"),
    [
        (None, "succeeded", "submit"),
        (None, "failed", "submit status delete"),
        ("RUNNING", "succeeded", "submit status logs status"),
        ("RUNNING", "failed", "submit status logs status delete"),
        ("succeeded", "failed", "submit status"),
        ("failed", "succeeded", "submit status delete"),
    ],
)
def test_a_ray_job_is_submitted_once(run, tmp_path, before, after, calls):
    tools = tmp_path / "tools"
    program(tools / "ray", RAY)
    program(tools / "python3", NODES)
    program(tools / "sleep", "#!/bin/sh\n")
    states = tmp_path / "states"
    states.mkdir()
    if before:
        (states / "uid").write_text(before)
    script = ROOT / "templates/scripts/submit-ray.sh"
    words = ("ray", "job", "submit", "--", "python", "train.py")

    nodes = {"MLGEN_NODES": "3"} if before is None else {}
    env = {"MLGEN_SUBMISSION": "uid", "STATES": str(states), "NEXT": after, **nodes}
    status, _, _ = run(script, *words, **env)

    lines = (states / "calls").read_text().splitlines()
    assert " ".join(line.split()[1] for line in lines) == calls
    assert status == ("delete" in calls)
    assert len((states / "nodes").read_text().splitlines()) == (3 if nodes else 1)
    assert lines[0] == "job submit --submission-id uid -- python train.py"

"""Run a command in a private cluster: a real Kubernetes with kubelets that ends with the command.

    python tests/parts/private.py --kubernetes 1.37 -- pytest -n 0 -m cluster tests/cluster

It is the cluster of ../shared/cluster, which must have been built, in its own network, mount and
PID namespaces. It starts within a minute, takes little disk space because its images are hard
links, and does not affect that cluster or the machine. The command runs in the namespaces, with
KUBECONFIG and PATH. It has no other network than the cluster's. Needs root.
"""

import argparse
import os
import secrets
import shlex
import shutil
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from parts.programs import CLUSTER, KUBERNETES, SHARED, MissingError, kubernetes

UP = SHARED / "cluster/up"
HERE = Path(__file__).parent
NODE = HERE / "node.sh"
PRIVATE = CLUSTER.with_name("mlgen-private")
"""Prefix of the folders of private clusters. They are next to the images, for hard links."""

CGROUPS = Path("/sys/fs/cgroup")
KINDS = ("--mount", "--net", "--uts", "--pid")
"""Options of nsenter and unshare: the kinds of namespaces."""

BOLTS = (
    "io.containerd.metadata.v1.bolt/meta.db",
    "io.containerd.snapshotter.v1.overlayfs/metadata.db",
)
"""Containerd's lists of its content. They must be copied before the content."""

CONTENTS = (
    "io.containerd.content.v1.content/blobs",
    "io.containerd.snapshotter.v1.overlayfs/snapshots",
)

WITHOUT_PODS = """version = 2
root = "{folder}/containerd"
state = "/run/mlgen-cluster/containerd"
disabled_plugins = ["io.containerd.grpc.v1.cri"]
[grpc]
  address = "/run/mlgen-cluster/containerd.sock"
"""

FORGET = """
containerd --config "$1/etc/images.toml" >"$1/log/images.log" 2>&1 &
echo $! >"$1/run/containerd.pid"
until ctr -a /run/mlgen-cluster/containerd.sock version >/dev/null 2>&1; do sleep 0.2; done
exec "$2"
"""
"""`../shared/cluster/down` removes the containers that the lists still contain."""


class Private:
    """A private cluster.

    Attributes:
        folder: its state: `log/`, `run/NAME.pid`, `kubeconfig`, as ../shared/cluster/up creates it.
        environment: for commands outside of its namespaces. `kubectl` enters the namespaces.
    """

    def __init__(self, folder, init):
        self.folder, self.init = folder, init
        self._inside = os.environ | {
            "KUBECONFIG": str(folder / "kubeconfig"),
            "MLGEN_CLUSTER_HOME": str(folder),
            "PATH": f"{folder / 'bin'}:{os.environ['PATH']}",
        }
        outside = f"{folder / 'outside'}:{os.environ['PATH']}"
        self.environment = self._inside | {"PATH": outside}

    def run(self, *words, check=True, **options):
        """Run a command in the namespaces, as `subprocess.run` does."""
        command = [*self.enter, f"--wdns={Path.cwd()}", *words]
        return subprocess.run(command, check=check, env=self._inside, **options)

    @property
    def enter(self):
        """Prefix of a command line that runs in the namespaces."""
        return ["nsenter", f"--target={self.init}", *KINDS]

    def node(self, number):
        """Start another node, `node-NUMBER`, or restart its dead programs; see node.sh."""
        images = self.folder / f"node-{number}/containerd"
        if not images.exists():
            share(self.folder / "containerd", images)
        self.run(NODE, self.folder, str(number))

    def kill(self, program, number):
        """Kill a program of a node, such as the kubelet of `node-1`, as if it had crashed."""
        file = self.folder / f"node-{number}/run/{program}.pid"
        self.run("kill", "-KILL", file.read_text().strip())


@contextmanager
def private(version="1.34", nodes=1, programs=None):
    """Run a private cluster; stop it and remove its files at the end.

    Args:
        version: the version of Kubernetes, one of `programs.KUBERNETES`.
        nodes: the number of nodes. Each after the first has its own network namespace.
        programs: paths of programs by name that replace programs of the cluster, such as
            `{"workflow-controller": …}`.
    """
    if not (CLUSTER / "containerd").exists():
        raise MissingError("there is no cluster whose images can be used: run ../shared/cluster/up")
    own = {file.name: file for file in kubernetes(version).iterdir()}
    if "kubelet" not in own:
        raise MissingError(
            f"there is no kubelet; `../shared/parts/build kubelet-{version}` builds it"
        )
    sweep()
    folder = PRIVATE.with_name(f"{PRIVATE.name}-{os.getpid()}-{secrets.token_hex(2)}")
    links = {**{file.name: file for file in (CLUSTER / "bin").iterdir()}, **own, **(programs or {})}
    try:
        install(folder, links)
        share(CLUSTER / "containerd", folder / "containerd")
        with namespaces() as init:
            created = Private(folder, init)
            start(created)
            for number in range(1, nodes):
                created.node(number)
            yield created
    finally:
        remove(folder)


def install(folder, links):
    """Create the folder of a cluster, in which `up` finds everything already built."""
    for name in ("bin", "outside"):
        (folder / name).mkdir(parents=True)
    for name, file in links.items():
        link = "kubelet.real" if name == "kubelet" else name
        (folder / "bin" / link).symlink_to(file)
    (folder / "bin/kubelet").symlink_to(HERE / "kubelet.sh")
    for name in ("argo", "images"):
        (folder / name).symlink_to(CLUSTER / name)


def share(source, target):
    """Copy the images of another containerd, which may run, as hard links."""
    for bolt in BOLTS:
        (target / bolt).parent.mkdir(parents=True)
        copy(source / bolt, target / bolt)
    for content in CONTENTS:
        (target / content).parent.mkdir(parents=True, exist_ok=True)
        # Files that a container of the other one writes or removes meanwhile do not matter.
        command = ["cp", "-al", source / content, target / content]
        subprocess.run(command, check=False, stderr=subprocess.DEVNULL)


def copy(source, target):
    """Copy a file while no process writes to it."""
    while True:
        before = source.stat().st_mtime_ns
        shutil.copyfile(source, target)
        if source.stat().st_mtime_ns == before:
            return


@contextmanager
def namespaces():
    """Create namespaces, and yield the process that holds them. Kills all processes at the end."""
    new = ["unshare", *KINDS, "--fork", "--mount-proc", "--kill-child"]
    pipe = subprocess.PIPE
    with subprocess.Popen([*new, HERE / "namespaces.sh"], stdin=pipe, stdout=pipe) as process:
        try:
            if process.stdout.readline() != b"ready\n":
                raise MissingError("no namespaces can be made here: root is needed")
            children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
            yield int(children.read_text())
        finally:
            process.stdin.close()


def start(created):
    """Start the cluster, without the containers that were copied with its images."""
    folder = created.folder
    for name in ("etc", "log", "run"):
        (folder / name).mkdir()
    (folder / "etc/images.toml").write_text(WITHOUT_PODS.format(folder=folder))
    created.run("bash", "-c", FORGET, "-", folder, UP.with_name("down"))
    for _ in range(3):  # on a busy machine, a request may time out; started programs keep running
        if not created.run(UP, check=False, stdout=subprocess.DEVNULL).returncode:
            break
    else:
        raise RuntimeError(f"{UP} fails")
    give_pods_addresses(folder)
    enter = shlex.join(
        ["nsenter", f"--target={created.init}", "--net", str(CLUSTER / "bin/kubectl")]
    )
    kubectl = folder / "outside/kubectl"
    kubectl.write_text(f'#!/bin/sh\nexec {enter} "$@"\n')
    kubectl.chmod(0o755)


def give_pods_addresses(folder):
    """Reserve addresses for the pods of other nodes, and route the first node's to all nodes."""
    file = folder / "etc/cni/10-bridge.conflist"
    text = file.read_text().replace("10.244.0.0/16", "10.244.0.0/24")
    file.write_text(text.replace('"ipMasq": true', '"ipMasq": false'))


def remove(folder):
    """Remove the folder and the cgroups of a cluster that has ended."""
    shutil.rmtree(folder, ignore_errors=True)
    for root in (*CGROUPS.glob(folder.name), *CGROUPS.glob(f"*/{folder.name}")):
        groups = [root, *(each for each in root.rglob("*") if each.is_dir())]
        for group in sorted(groups, reverse=True):
            group.rmdir()


def sweep():
    """Remove the files of a killed process. Its cluster has ended with it."""
    for folder in PRIVATE.parent.glob(f"{PRIVATE.name}-*-*"):
        if not Path("/proc", folder.name.split("-")[-2]).exists():
            remove(folder)


def main():
    as_it_is = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=as_it_is)
    parser.add_argument("--kubernetes", default="1.34", choices=KUBERNETES)
    parser.add_argument("--nodes", type=int, default=1)
    parser.add_argument("--program", action="append", default=[], metavar="NAME=PATH")
    parser.add_argument("command", nargs="+")
    wanted = parser.parse_args()
    programs = dict(each.split("=", 1) for each in wanted.program)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    with private(wanted.kubernetes, wanted.nodes, programs) as created:
        status = created.run(*wanted.command, check=False).returncode
    sys.exit(status)


if __name__ == "__main__":
    main()

"""`mlgen list` of 2,000 jobs, against `kubectl get` of the same objects.

A server on this machine answers as the API server would. Each job has a Job for its replicas, a
supervisor's Job, and a ConfigMap with the status, as a cluster returns them.
"""

import json
import os
import tempfile
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

from measure import MLGEN, arguments, compared, cost, number, ratio, script, table, tool

import mlgen
from mlgen.runtime import progress, status

FILE = """\
apiVersion: mlgen.dev/v1alpha1
kind: TrainingJob
metadata: {name: train, namespace: vision, labels: {team: vision}}
spec:
  framework: pytorch
  image: example/train:1
  command: [python, train.py, --epochs=90, --batch-size=256]
  env: {NCCL_DEBUG: INFO, OMP_NUM_THREADS: "8"}
  resources: {nvidia.com/gpu: 8, cpu: 32, memory: 256Gi}
  roles: {worker: {replicas: 4}}
  runPolicy: {progress: {}, restartScope: All}
"""
CREATED = "2026-11-29T12:00:00Z"
APIS = {"jobs": "Job", "statefulsets": "StatefulSet", "configmaps": "ConfigMap"}


def objects(count):
    """Return the objects of running jobs, by resource."""
    (job,) = mlgen.validate(FILE).jobs
    kept = [item for item in job.objects if item["kind"] == "Job"]
    kept += [item for item in job.objects if item["metadata"]["name"] == "train.status"]
    found = {name: [] for name in APIS}
    for index in range(count):
        for each in kept:
            text = json.dumps(each).replace('"train', f'"train-{index:04}')
            item = json.loads(text)
            found[f"{item['kind'].lower()}s"].append(complete(item, f"{index:08x}"))
    return found


def complete(item, uid):
    """Return an object with what the API server and the controllers add."""
    manager = {"manager": "kubectl", "operation": "Apply", "fieldsV1": fields(item)}
    kind, name = item.pop("kind"), item["metadata"]["name"]
    item["metadata"] |= {
        "uid": f"{uid}-{name}",
        "creationTimestamp": CREATED,
        "resourceVersion": "1000",
        "generation": 1,
        "managedFields": [manager],
    }
    if kind == "ConfigMap":
        started = {"run": f"{uid}-{name.removesuffix('.status')}-supervisor", "uid": "other"}
        members = tuple(f"{number:08x}" for number in range(4))
        record = status.State(**started, first=1.8e9, started=1.8e9, running=1.8e9, members=members)
        metrics = (("loss", "0.23"), ("lr", "1e-05"))
        heard = progress.Progress(last=1.8e9, percent=45, remaining=5400, metrics=metrics)
        item["data"] = {
            "state": record.text(),
            "Created": f"True {CREATED} JobCreated: {name} is created",
            "Running": f"True {CREATED} JobRunning: {name} is running",
            "progress": progress.stored_text(heard, 1.8e9),
            "replicas.worker": "active 4, succeeded 0, failed 0",
            "restarts": "0",
            "startTime": CREATED,
        }
    else:
        ready = item["spec"].get("completions", 1)
        item["status"] = {"active": ready, "ready": ready, "startTime": CREATED}
    return item


def fields(value):
    """Return the managed fields of a value."""
    if isinstance(value, dict):
        return {f"f:{key}": fields(each) for key, each in value.items()}
    return {}


class Server(ThreadingHTTPServer):
    """An API server with lists of objects, as JSON."""

    def __init__(self, found):
        self.texts = {
            name: json.dumps({"kind": f"{APIS[name]}List", "metadata": {}, "items": items}).encode()
            for name, items in found.items()
        }
        super().__init__(("127.0.0.1", 0), Handler)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        resource = self.path.partition("?")[0].rpartition("/")[2]
        text = self.server.texts.get(resource, b"{}")
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_):
        pass


def main(argv):
    small = arguments(__doc__, argv).small
    tool("kubectl")
    rows = []
    for count in (20,) if small else (200, 2000):
        found = objects(count)
        size = sum(len(json.dumps(each)) for each in found.values())
        with Server(found) as server, tempfile.TemporaryDirectory() as folder:
            Thread(target=server.serve_forever, daemon=True).start()
            config = Path(folder) / "config"
            config.write_text(kubeconfig(server.server_port))
            run = partial(cost, env={**os.environ, "KUBECONFIG": str(config)})
            paths = [f"/{name}?labelSelector=mlgen.dev%2Fjob" for name in APIS]
            raw = " & ".join(f"kubectl get --raw '{path}' >/dev/null" for path in paths)
            times = compared(
                1 if small else 5,
                ours=partial(run, [*MLGEN, "list"]),
                raw=partial(run, ["sh", "-c", f"{raw} & wait"]),
            )
            server.shutdown()
        ours, raw = times["ours"], times["raw"]
        shown = [ratio(ours.elapsed, raw.elapsed), ratio(ours.cpu, raw.cpu)]
        shown += [number(each) for each in (size / 1e6, ours.elapsed, ours.cpu, ours.peak)]
        rows.append((f"{count:,} jobs", *shown))
    table(("", "elapsed", "CPU", "MB read", "s", "s of CPU", "MB"), *rows)


def kubeconfig(port):
    """Return a kubeconfig for the server."""
    cluster = {"name": "one", "cluster": {"server": f"http://127.0.0.1:{port}"}}
    context = {"name": "one", "context": {"cluster": "one", "user": "", "namespace": "vision"}}
    config = {"clusters": [cluster], "contexts": [context], "current-context": "one"}
    return json.dumps({"apiVersion": "v1", "kind": "Config", **config})


if __name__ == "__main__":
    script(main)

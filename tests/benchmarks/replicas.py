"""`mlgen render` of a job with many workers, against `helm template` with a Job for each of them.

The chart is written as by hand: its template has `range` over the workers, around a Job with
an init container that waits, labels, variables and security contexts, as `mlgen render` writes them
for a worker with its own Job. Growth is measured from 1,000 to 10,000 workers: 10 is linear. All
figures are CPU seconds of whole processes, with Python's start and imports.
"""

import subprocess
import tempfile
from pathlib import Path

from measure import MLGEN, MissingError, arguments, cost, number, ratio, script, table, tool

SIZES = (100, 1_000, 10_000, 100_000)
HELM_SIZES = SIZES[:3]
SMALL = (10, 20)

JOB = """\
apiVersion: mlgen.dev/v1alpha1
kind: TrainingJob
metadata: {name: big}
spec: {image: example/big:1, command: [python, train.py], framework: SPEC}
"""

NODES = "network: {host: true, hostPorts: {base: 1024, size: 20000}}"

KINDS = {
    "deepspeed": "deepspeed, roles: {launcher: {}, worker: {replicas: N}}",
    "elasticdl": "elasticdl, roles: {master: {}}",
    "generic": "generic, roles: {worker: {replicas: N}}",
    "horovod": "horovod, roles: {launcher: {}, worker: {replicas: N}}",
    "jax": "jax, roles: {worker: {replicas: N}}",
    "mars": "mars, roles: {scheduler: {}, webservice: {}, worker: {replicas: N}}",
    "mpi": "mpi, roles: {launcher: {}, worker: {replicas: N}}",
    "mpi, ssh": "mpi, options: {transport: ssh}, roles: {launcher: {}, worker: {replicas: N}}",
    "mxnet": "mxnet, roles: {scheduler: {}, server: {}, worker: {replicas: N}}",
    "paddle": "paddle, roles: {worker: {replicas: N}}",
    "pytorch": "pytorch, roles: {master: {}, worker: {replicas: N}}",
    "pytorch, elastic": "pytorch, options: {elasticPolicy: {minReplicas: 1}},"
    " roles: {worker: {replicas: N}}",
    "ray": "ray, roles: {head: {}, worker: {replicas: N}, submitter: {}}",
    "tensorflow, sparse": "tensorflow, options: {enableDynamicWorker: true},"
    " roles: {chief: {}, ps: {replicas: 4}, worker: {replicas: N}}",
    "xdl": "xdl, roles: {ps: {}, scheduler: {}, worker: {replicas: N}}",
    "xgboost": "xgboost, roles: {master: {}, worker: {replicas: N}}",
    "jax, volcano": "jax, resources: {memory: 1Gi}, scheduling: {gang: volcano},"
    " roles: {worker: {replicas: N}}",
    "pytorch, a Job each": "pytorch, roles: {master: {workingDir: /}, worker: {replicas: N}}",
    "pytorch, a Job each, waitFor": "pytorch, roles: {master: {workingDir: /},"
    " worker: {replicas: N, waitFor: [{role: master, until: name}]}}",
    "jax, on the nodes": f"jax, {NODES}, roles: {{worker: {{replicas: N}}}}",
}

CHART = {
    "Chart.yaml": "{apiVersion: v2, name: big, version: 0.1.0}\n",
    "values.yaml": "{image: example/big:1, workers: 1}\n",
    "templates/job.yaml": """\
apiVersion: v1
kind: Service
metadata:
  name: {{ .Release.Name }}
spec: {clusterIP: None, publishNotReadyAddresses: true, selector: {job: {{ .Release.Name }}}}
{{- range $i := until (int .Values.workers) }}
---
apiVersion: batch/v1
kind: Job
metadata:
  name: {{ $.Release.Name }}-worker-{{ $i }}
  labels:
    app.kubernetes.io/name: {{ $.Chart.Name }}
    app.kubernetes.io/instance: {{ $.Release.Name }}
    app.kubernetes.io/component: worker
    app.kubernetes.io/managed-by: {{ $.Release.Service }}
    job: {{ $.Release.Name }}
    role: worker
    index: {{ $i | quote }}
spec:
  backoffLimit: 0
  podFailurePolicy:
    rules:
    - action: Ignore
      onPodConditions:
      - {type: DisruptionTarget, status: 'True'}
  template:
    metadata:
      labels:
        app.kubernetes.io/name: {{ $.Chart.Name }}
        app.kubernetes.io/instance: {{ $.Release.Name }}
        app.kubernetes.io/component: worker
        job: {{ $.Release.Name }}
        role: worker
        index: {{ $i | quote }}
        sidecar.istio.io/inject: 'false'
      annotations: {linkerd.io/inject: disabled}
    spec:
      hostname: {{ $.Release.Name }}-worker-{{ $i }}
      subdomain: {{ $.Release.Name }}
      restartPolicy: Never
      initContainers:
      - name: wait-for-peers
        image: busybox:1.36
        command: [sh, /scripts/wait-for-peers.sh]
        env:
        - {name: PEERS, value: {{ $.Release.Name }}-master-0}
        resources: {requests: {cpu: 50m, memory: 64Mi}, limits: {cpu: 500m, memory: 128Mi}}
        securityContext:
          allowPrivilegeEscalation: false
          capabilities: {drop: [ALL]}
          readOnlyRootFilesystem: true
          runAsNonRoot: true
          runAsUser: 65534
          seccompProfile: {type: RuntimeDefault}
        volumeMounts:
        - {name: scripts, mountPath: /scripts}
      containers:
      - name: main
        image: {{ $.Values.image }}
        command: [python, train.py]
        env:
        - {name: REPLICA_INDEX, value: {{ $i | quote }}}
        - {name: PYTHONUNBUFFERED, value: '1'}
        - {name: MASTER_PORT, value: '23456'}
        - {name: PET_MASTER_PORT, value: '23456'}
        - {name: MASTER_ADDR, value: {{ $.Release.Name }}-master-0}
        - {name: PET_MASTER_ADDR, value: {{ $.Release.Name }}-master-0}
        - {name: WORLD_SIZE, value: {{ add $.Values.workers 1 | quote }}}
        - {name: RANK, value: {{ add $i 1 | quote }}}
        - {name: PET_NPROC_PER_NODE, value: auto}
        - {name: PET_NODE_RANK, value: {{ add $i 1 | quote }}}
        - {name: PET_NNODES, value: {{ add $.Values.workers 1 | quote }}}
        ports:
        - {name: peers, containerPort: 23456}
        volumeMounts:
        - {name: shm, mountPath: /dev/shm}
      volumes:
      - {name: scripts, configMap: {name: {{ $.Release.Name }}-scripts}}
      - {name: shm, emptyDir: {medium: Memory}}
{{- end }}
""",
}


def of_mlgen(folder, spec, size, runs):
    """Return the CPU seconds of rendering a job; None if it is rejected as too large."""
    file = folder / "job.yaml"
    file.write_text(JOB.replace("SPEC", spec.replace("N", str(size))))
    try:
        return min(cost([*MLGEN, "render", str(file)]).cpu for _ in range(runs))
    except subprocess.CalledProcessError:
        return None


def of_helm(folder, size, runs):
    """Return the CPU seconds of rendering the chart."""
    for name, text in CHART.items():
        file = folder / "chart" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    command = [tool("helm3"), "template", "big", str(folder / "chart"), "--set", f"workers={size}"]
    return min(cost(command).cpu for _ in range(runs))


def row(name, costs, base, sizes):
    """Return a row of the table: ratios first."""
    compared = sizes[-1] if base is None or len(sizes) < len(SIZES) else HELM_SIZES[-1]
    last, before = costs.get(compared), costs.get(sizes[sizes.index(compared) - 1])
    to_helm = ratio(last, base) if last and base else "-"
    growth = ratio(last, before) if last and before else "-"
    return [name, to_helm, growth, *(number(costs[s]) if costs.get(s) else "-" for s in sizes)]


def main(argv):
    small = arguments(__doc__, argv).small
    sizes, runs = (SMALL, 1) if small else (SIZES, 2)
    kinds = dict([*KINDS.items()][-3:]) if small else KINDS
    rows = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        try:
            helm = {size: of_helm(folder, size, runs) for size in (sizes if small else HELM_SIZES)}
        except MissingError as missing:
            print(f"without helm: {missing}\n")
            helm = {}
        base = helm.get(sizes[-1] if small else HELM_SIZES[-1])
        for kind, spec in kinds.items():
            costs = {size: of_mlgen(folder, spec, size, runs) for size in sizes}
            rows.append(row(kind, costs, base, sizes))
        if helm:
            rows.append(row("helm, a Job each", helm, base, sizes))
    table(["", "to helm", "growth", *(f"{size:,}" for size in sizes)], *rows)


if __name__ == "__main__":
    script(main)

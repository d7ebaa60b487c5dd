"""Many jobs in one call, compared with one call per job and with `helm template`.

The first table shows the jobs per second of `mlgen render`: from a folder of files, from a stream
of documents, and from a List of PyTorchJobs as `kubectl get -o yaml` prints it. The second shows
its peak memory for growing streams: 1x means constant memory. The third shows `verify` and `diff`
in MB of manifests per second. `diff` reads two versions of each.
"""

import tempfile
from pathlib import Path

from measure import (
    MLGEN,
    MissingError,
    arguments,
    compared,
    cost,
    number,
    ratio,
    script,
    table,
    tool,
)

JOB = """\
---
apiVersion: mlgen.dev/v1alpha1
kind: TrainingJob
metadata: {{name: job-{number}}}
spec:
  framework: pytorch
  image: registry.example/team/bert:{number}
  command: [torchrun, train.py]
  options: {{nprocPerNode: 8}}
  env: {{EPOCHS: "3", DATA: /data/{number}}}
  roles:
    worker: {{replicas: 4, resources: {{nvidia.com/gpu: 8, memory: 64Gi}}, port: 29500}}
"""

ITEM = """\
- apiVersion: kubeflow.org/v1
  kind: PyTorchJob
  metadata:
    creationTimestamp: "2026-01-31T12:00:00Z"
    generation: 1
    name: job-{number}
    namespace: nlp
    resourceVersion: "{number}"
    uid: 6f3c1a52-5a0f-4d4e-9a53-{number:012}
  spec:
    pytorchReplicaSpecs:
      Worker:
        replicas: 4
        restartPolicy: OnFailure
        template:
          spec:
            containers:
            - command:
              - torchrun
              - train.py
              image: registry.example/team/bert:{number}
              name: pytorch
              resources:
                limits:
                  nvidia.com/gpu: 8
    runPolicy:
      suspend: false
  status:
    conditions:
    - lastTransitionTime: "2026-01-31T12:00:00Z"
      message: PyTorchJob job-{number} is created.
      reason: PyTorchJobCreated
      status: "True"
      type: Created
    replicaStatuses:
      Worker: {{}}
"""

LIST = 'apiVersion: v1\nitems:\n{items}kind: List\nmetadata:\n  resourceVersion: ""\n'

TEMPLATE = """\
{{- range until (int .Values.jobs) }}
---
apiVersion: v1
kind: Service
metadata: {name: job-{{ . }}, labels: {job: job-{{ . }}}}
spec: {clusterIP: None, publishNotReadyAddresses: true, selector: {job: job-{{ . }}}}
---
apiVersion: batch/v1
kind: Job
metadata: {name: job-{{ . }}, labels: {job: job-{{ . }}}}
spec:
  completions: 4
  parallelism: 4
  completionMode: Indexed
  backoffLimit: 3
  template:
    metadata: {labels: {job: job-{{ . }}}}
    spec:
      subdomain: job-{{ . }}
      restartPolicy: Never
      containers:
        - name: main
          image: registry.example/team/bert:{{ . }}
          command: [torchrun, --nproc-per-node=8, --rdzv-endpoint=job-{{ . }}-0, train.py]
          env: [{name: EPOCHS, value: "3"}, {name: DATA, value: /data/{{ . }}}]
          resources: {limits: {nvidia.com/gpu: 8, memory: 64Gi}}
{{- end }}
"""


def measured(runs, **candidates):
    """Return the median Cost of each candidate; without runs, the Cost of one call."""
    return compared(runs, **candidates) if runs else {k: run() for k, run in candidates.items()}


def render(*words):
    """Return a function that renders and returns its Cost."""
    return lambda: cost([*MLGEN, "render", "--no-config", *map(str, words)])


def inputs(folder, count):
    """Write the jobs as files, a stream, a List and a chart; return the paths."""
    files, stream, listed = folder / "jobs", folder / "jobs.yaml", folder / "list.yaml"
    files.mkdir()
    documents = [JOB.format(number=i) for i in range(count)]
    for i, document in enumerate(documents):
        (files / f"job-{i:06}.yaml").write_text(document)
    stream.write_text("".join(documents))
    listed.write_text(LIST.format(items="".join(ITEM.format(number=i) for i in range(count))))
    chart = folder / "chart"
    (chart / "templates").mkdir(parents=True)
    (chart / "Chart.yaml").write_text("apiVersion: v2\nname: jobs\nversion: 1.0.0\n")
    (chart / "values.yaml").write_text(f"jobs: {count}\n")
    (chart / "templates" / "jobs.yaml").write_text(TEMPLATE)
    return files, stream, listed, chart


def speed(folder, count, runs):
    """Print the jobs per second for several kinds of input."""
    files, stream, listed, chart = inputs(folder, count)
    one = folder / "one.yaml"
    one.write_text(JOB.format(number=0))
    candidates = {
        "one": render(one),
        "folder": render(files),
        "stream": render(stream),
        "list": render(listed),
    }
    try:
        helm = tool("helm3")
        candidates["helm"] = lambda: cost([helm, "template", chart])
    except MissingError as missing:
        print(f"without Helm: {missing}\n")
    costs = measured(runs, **candidates)
    names = {
        "one": "a call for each file",
        "folder": "a folder of files",
        "stream": "a stream of documents",
        "list": "a List of PyTorchJobs",
        "helm": "a chart, helm template",
    }
    base = costs["one"].elapsed * count
    rows = []
    for name, found in costs.items():
        elapsed, cpu = (
            (base, costs["one"].cpu * count) if name == "one" else (found.elapsed, found.cpu)
        )
        rows.append(
            [names[name], ratio(base, elapsed), number(count / elapsed), number(cpu / count * 1000)]
        )
    table([f"{count:,} jobs", "faster", "jobs a second", "CPU ms a job"], *rows)


def memory(folder, sizes):
    """Print the peak memory for streams of growing length."""
    peaks = []
    for size in sizes:
        stream = folder / "memory.yaml"
        with stream.open("w") as file:
            file.writelines(JOB.format(number=i) for i in range(size))
        peaks.append(cost([*MLGEN, "render", "--no-config", stream]).peak)
    rows = [
        [f"{size:,}", ratio(peak, peaks[0]), number(peak)]
        for size, peak in zip(sizes, peaks, strict=True)
    ]
    table(["documents", "peak", "MB"], *rows)


def manifests(folder, count):
    """Write rendered manifests unchanged, with one changed line each, and with other names."""
    stream = folder / "manifests.jobs"
    stream.write_text("".join(JOB.format(number=i) for i in range(count)))
    paths = [folder / f"{name}.yaml" for name in ("same", "line", "other")]
    cost([*MLGEN, "render", "--no-config", stream, "-o", paths[0]])
    text = paths[0].read_text()
    paths[1].write_text(text.replace("/data/", "/new/"))
    paths[2].write_text(text.replace("job-", "task-"))
    return paths


def checks(folder, count, runs):
    """Print the MB per second of verify and diff."""
    same, line, other = manifests(folder, count)
    copy = folder / "copy.yaml"
    copy.write_text(same.read_text())
    megabytes = same.stat().st_size / 1e6
    commands = {
        "verify": ["verify", same],
        "same": ["diff", same, copy],
        "line": ["diff", same, line],
        "other": ["diff", same, other],
    }

    def run(name):
        words = [*MLGEN, *map(str, commands[name]), "--no-config"]
        return lambda: cost(["sh", "-c", '"$@" || [ $? -eq 3 ]', "sh", *words])

    costs = measured(runs, **{name: run(name) for name in commands})
    names = {
        "verify": "verify",
        "same": "diff, the same text",
        "line": "diff, a line in each Job",
        "other": "diff, all names",
    }
    base = costs["other"].cpu
    rows = [
        [names[name], ratio(base, found.cpu), number(megabytes / found.cpu)]
        for name, found in costs.items()
    ]
    table([f"{number(megabytes)} MB of manifests", "faster", "MB a CPU second"], *rows)


def main(argv):
    large = "--large" in argv
    small = arguments(__doc__, [word for word in argv if word != "--large"]).small
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        speed(folder, 3 if small else 1000, 0 if small else 3)
        memory(folder, (2, 4) if small else (1000, 10_000, *([100_000] if large else [])))
        checks(folder, 3 if small else 2000, 0 if small else 3)


if __name__ == "__main__":
    script(main)

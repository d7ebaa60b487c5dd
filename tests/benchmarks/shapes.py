"""Texts of any size in which one thing is repeated, like hostile or very large input."""

from collections.abc import Callable
from typing import NamedTuple

JOB = """\
apiVersion: mlgen.dev/v1alpha1
kind: TrainingJob
metadata:
  name: big
"""

SPEC = """\
spec:
  image: example/big:1
  command: [python, train.py]
"""

CONFIG_MAP = """\
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: prices-{i}
  labels: {{app: shop}}
data:
  table: |
    as it stands in many a chart
"""

RESOURCE_LIST = "apiVersion: config.kubernetes.io/v1\nkind: ResourceList\n"

PYTORCH_JOB = """\
---
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {{name: bert-{i}}}
spec:
  pytorchReplicaSpecs:
    Worker:
      replicas: 2
      template:
        spec:
          containers:
          - name: pytorch
            image: example/big:1
            env:
            - {{name: EPOCHS, value: "3"}}
"""

COMMANDS = ("render", "validate", "show", "graph", "diff", "verify", "krm", "helm", "argocd")
"""The commands that read a job file. `diff` and `verify` read its manifests."""

READ = ("render",)
"""The commands for shapes that all commands read in the same way."""

KRM = ("krm",)


class Shape(NamedTuple):
    """A text that grows.

    Attributes:
        name: The repeated thing.
        size: Number of repetitions in the smallest text.
        text: Function from the number of repetitions to the text.
        commands: The measured commands.
        wrapped: True if `krm` needs a ResourceList around the text; False if the text is one.
    """

    name: str
    size: int
    text: Callable[[int], str]
    commands: tuple[str, ...] = COMMANDS
    wrapped: bool = True


def lines(template: str, count: int) -> str:
    """Return `count` copies of a template, each with its index in place of `{i}`."""
    return "".join(template.format(i=i) for i in range(count))


def json_config_map(number: int) -> str:
    """Return a ConfigMap in JSON, in one line."""
    metadata = f'{{"name": "c{number}"}}'
    fields = f'"apiVersion": "v1", "kind": "ConfigMap", "metadata": {metadata}'
    return f'{{{fields}, "data": {{"a": "b"}}}}'


def resource_list(text: str) -> str:
    """Return a ResourceList with the documents of a text as items."""
    documents = [
        part.strip("\n").splitlines(keepends=True) for part in f"\n{text}".split("\n---\n")
    ]
    items = "".join(f"- {'  '.join(part)}\n" for part in documents if part)
    return f"{RESOURCE_LIST}items:\n{items}"


def job(spec: str = "", framework: str = "generic", roles: str = "{worker: {}}") -> str:
    """Return a job file; `spec` is further fields of its spec."""
    return f"{JOB}{SPEC}  framework: {framework}\n  roles: {roles}\n{spec}"


def repeated(before: str, template: str, after: str = "") -> Callable[[int], str]:
    """Return the `text` of a job whose spec repeats something."""
    return lambda n: job(f"  {before}\n" + lines(f"{template}\n", n) + after)


def pod(before: str, template: str) -> Callable[[int], str]:
    """Return the `text` of a job whose pod template repeats something."""
    indented = "".join(f"        {line}\n" for line in before.splitlines())
    return lambda n: job(
        "  template:\n    spec:\n" + indented + lines(f"          {template}\n", n)
    )


def metadata(before: str, template: str) -> Callable[[int], str]:
    """Return the `text` of a job whose metadata repeats something."""
    return lambda n: JOB + f"  {before}\n" + lines(f"    {template}\n", n) + job().removeprefix(JOB)


def script(part: str) -> Callable[[int], str]:
    """Return the `text` of a job whose shell script repeats something."""
    return lambda n: job().replace("[python, train.py]", f"[sh, -c, '{part * n}']")


def sidecar(part: str) -> Callable[[int], str]:
    """Return the `text` of a job with another container, whose script repeats something."""
    return lambda n: pod(MAIN, f"- {{{{name: log, image: a, command: [sh, -c, '{part * n}']}}}}")(1)


MAIN = "containers:\n  - name: main\n"

SHAPES = (
    Shape(
        "roles",
        25,
        lambda n: job(
            "  successPolicy: {role: role0}\n", roles="{" + lines("role{i}: {{}}, ", n) + "}"
        ),
    ),
    Shape(
        "replicas of one Job",
        25_000,
        lambda n: job(roles=f"{{worker: {{replicas: {n}}}}}", framework="pytorch"),
    ),
    Shape(
        "a Job each",
        2_500,
        lambda n: job(
            roles=f"{{master: {{workingDir: /}}, worker: {{replicas: {n}}}}}", framework="pytorch"
        ),
    ),
    Shape(
        "a Job and a Service each",
        1_500,
        lambda n: job(
            "  network: {host: true, hostPorts: {base: 1024, size: 20000}}\n",
            "jax",
            f"{{worker: {{replicas: {n}}}}}",
        ),
    ),
    Shape(
        "a ConfigMap of hosts",
        1_500,
        lambda n: job(framework="mpi", roles=f"{{launcher: {{}}, worker: {{replicas: {n}}}}}"),
    ),
    Shape(
        "replicas, peers in a variable", 500, lambda n: job(roles=f"{{worker: {{replicas: {n}}}}}")
    ),
    Shape("combinations of a matrix", 250, repeated("matrix:\n    args.seed:", '      - "{i}"')),
    Shape(
        "documents",
        250,
        lambda n: "".join("---\n" + job().replace("big", f"big-{i}", 1) for i in range(n)),
    ),
    Shape("other documents", 2_000, lambda n: "---\n" + job() + lines(CONFIG_MAP, n)),
    Shape("env", 5_000, repeated("env:", '    V{i}: "1"')),
    Shape("env, each of the one before", 1_000, repeated("env:", '    V{i}: "$(V{i}0)"')),
    Shape("env of the template", 5_000, pod(MAIN + "    env:", "    - {{name: V{i}, value: a}}")),
    Shape("args", 5_000, repeated("args:", '    - "--a{i}"')),
    Shape(
        "volumes", 2_000, repeated("volumes:", "    v{i}: {{mountPath: /v/{i}, emptyDir: {{}}}}")
    ),
    Shape("volumes of the template", 5_000, pod("volumes:", "- {{name: v{i}, emptyDir: {{}}}}")),
    Shape(
        "mounts of the template",
        5_000,
        pod(
            "volumes: [{name: v, emptyDir: {}}]\n" + MAIN + "    volumeMounts:",
            "    - {{name: v, mountPath: /v/{i}}}",
        ),
    ),
    Shape(
        "files",
        2_000,
        lambda n: job(
            "  volumes:\n    v:\n      mountPath: /v\n      files:\n"
            + lines("        f{i}: a\n", n)
        ),
    ),
    Shape(
        "claims",
        2_000,
        repeated(
            "claims:",
            "    c{i}: {{accessModes: [ReadWriteMany], resources: {{requests: {{storage: 1Gi}}}}}}",
        ),
    ),
    Shape("containers", 2_000, pod("containers:", "- {{name: c{i}, image: a}}")),
    Shape("init containers", 2_000, pod("initContainers:", "- {{name: c{i}, image: a}}")),
    Shape(
        "ports of the template",
        4_000,
        pod(MAIN + "    ports:", "    - {{name: p{i}, containerPort: 1{i}}}"),
    ),
    Shape("tolerations", 4_000, repeated("tolerations:", "    - {{key: t{i}, operator: Exists}}")),
    Shape("labels", 5_000, metadata("labels:", "l{i}: a")),
    Shape("annotations", 5_000, metadata("annotations:", "a{i}: a")),
    Shape("resources", 3_000, repeated("resources:", "    example.com/r{i}: 1")),
    Shape(
        "wait for",
        1_000,
        lambda n: job(
            "  successPolicy: {role: a}\n",
            roles="{a: {}, b: {waitFor: [" + "{role: a, until: name}, " * n + "]}}",
        ),
    ),
    Shape("unknown fields", 5_000, lambda n: job(lines("  unknown{i}: 1\n", n))),
    Shape(
        "unknown pod fields",
        5_000,
        lambda n: job("  template:\n    spec:\n" + lines("      unknown{i}: 1\n", n)),
    ),
    Shape("wrong values", 5_000, repeated("args:", "    - {{a: {i}}}")),
    Shape("wrong images", 2_000, pod("containers:", "- {{name: c{i}, image: 'A B'}}")),
    Shape("duplicate keys", 5_000, lambda n: job("  image: a\n" * n)),
    Shape(
        "one long argument",
        10_000,
        lambda n: job("  args:\n    - |\n" + lines("      python train{i}.py --a=$B\n", n)),
    ),
    Shape(
        "addresses in an argument",
        2_000,
        lambda n: job("  args:\n    - |\n" + lines("      big-worker-{i}.big:1{i}\n", n)),
    ),
    Shape(
        "items in one line of JSON",
        2_000,
        lambda n: RESOURCE_LIST + "items: [" + ", ".join(map(json_config_map, range(n))) + "]\n",
        KRM,
        wrapped=False,
    ),
    Shape(
        "keys after the items",
        2_000,
        lambda n: resource_list(job()) + "results: []\n" * n,
        KRM,
        wrapped=False,
    ),
    Shape(
        "comments after an item",
        5_000,
        lambda n: resource_list(job()) + "# a\n   \n" * n + "x: 1\n",
        KRM,
        wrapped=False,
    ),
    Shape(
        "anchors in items",
        2_000,
        lambda n: resource_list("") + "- {kind: A, x: &a 1, y: *a}\n" * n,
        KRM,
        wrapped=False,
    ),
    Shape(
        "items in brackets in a block list",
        2_000,
        lambda n: f"{RESOURCE_LIST}items: [\n{'{kind: A},' * n}]\n",
        KRM,
        wrapped=False,
    ),
    Shape(
        "items far to the right",
        500,
        lambda n: resource_list("") + ("-" + " " * 1000 + "{kind: A}\n") * n,
        KRM,
        wrapped=False,
    ),
    Shape(
        "empty items of a List",
        4_000,
        lambda n: (
            "apiVersion: v1\nkind: List\nitems: ["
            + "{}, " * n
            + "{apiVersion: mlgen.dev/v1alpha1, kind: TrainingJob}]\n"
        ),
        READ,
    ),
    Shape("values at depth 98", 2_000, lambda n: "a: " + "[" * 98 + "0," * n + "]" * 98, READ),
    Shape("aliases", 4_000, lambda n: "- &a x\n" + "- *a\n" * n, READ),
    Shape("one anchor again", 4_000, lambda n: "- &a x\n" * n, READ),
    Shape("merge keys", 2_000, lambda n: "a: &a {x: 1}\nb:\n" + "  <<: *a\n" * n, READ),
    Shape("one long line", 200_000, lambda n: f'a: "{"x" * n}"\n', READ),
    Shape("tiny documents", 4_000, lambda n: "--- a\n" * n, READ),
    Shape("commands", 1_000, script("a b; ")),
    Shape("commands that train", 1_000, script("python train.py; ")),
    Shape("commands joined by or", 1_000, script("python train.py || ")),
    Shape("launchers", 500, script("torchrun --nnodes=2 train.py; ")),
    Shape("changes of the directory", 1_000, script("cd a; "), READ),
    Shape("variables of a batch system", 1_000, script("$SLURM_A ")),
    Shape(
        "names of variables",
        1_000,
        lambda n: script("")(0).replace("''", f"'{lines('$SLURM_A{i} ', n)}'"),
        READ,
    ),
    Shape(
        "a loop over newlines", 4_000, lambda n: job('  args: ["for x' + "\\n" * n + '"]\n'), READ
    ),
    Shape("servers of ssh", 4_000, script("sshd "), READ),
    Shape("programs that follow a file", 4_000, sidecar("tail "), READ),
    Shape(
        "scripts that run each other",
        500,
        lambda n: job(
            "  volumes:\n    v:\n      mountPath: /v\n      files:\n"
            + "".join(f"        f{i}.sh: sh /v/f{i + 1}.sh; sh /v/f{i + 1}.sh\n" for i in range(n))
        ).replace("[python, train.py]", "[sh, /v/f0.sh]"),
        READ,
    ),
    Shape(
        "volumes, with files in args",
        1_000,
        lambda n: job(
            "  volumes:\n"
            + lines("    v{i}: {{mountPath: /v/{i}, emptyDir: {{}}}}\n", n)
            + "  args:\n"
            + lines("    - --output_dir=/v/{i}/a.py\n", n)
        ),
        READ,
    ),
    Shape(
        "containers with a volume each",
        500,
        lambda n: pod(
            "volumes:\n" + lines("  - {{name: v{i}, emptyDir: {{}}}}\n", n) + "containers:",
            "- {{name: c{i}, image: a, volumeMounts: [{{name: v{i}, mountPath: /v}}]}}",
        )(n),
        READ,
    ),
    Shape(
        "names without a hint",
        1_000,
        lambda n: job(
            "  env:\n"
            + lines('    VARIABLE{i:03}: "1"\n', 200)
            + "  args:\n"
            + lines("    - $(VARIABEL{i})\n", n)
        ),
        READ,
    ),
    Shape(
        "parts of an iSCSI name",
        4_000,
        lambda n: pod(
            f"volumes: [{{name: a, iscsi: {{iqn: {'iqn.2000-01.a' * n}}}}}]\ncontainers:",
            "- {{name: main}}",
        )(1),
        READ,
    ),
    Shape(
        "references without an end",
        4_000,
        lambda n: job(f"  args: ['{'$(' * n}']\n"),
        READ,
    ),
    Shape("jobs of one name", 250, lambda n: f"---\n{job()}" * n),
    Shape("wrong jobs", 250, lambda n: f"---\n{job(roles='{worker: {replicas: three}}')}" * n),
    Shape(
        "resources of an operator",
        100,
        lambda n: lines(PYTORCH_JOB, n),
        ("convert", "render"),
    ),
    Shape(
        "env in a resource of an operator",
        2_000,
        lambda n: PYTORCH_JOB.format(i=0) + lines("            - {{name: V{i}, value: a}}\n", n),
        ("convert", "render"),
    ),
    Shape(
        "comments in a resource of an operator",
        4_000,
        lambda n: PYTORCH_JOB.format(i=0) + lines("            # comment {i}\n", n),
        ("convert",),
    ),
)

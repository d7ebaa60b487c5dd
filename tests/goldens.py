"""Abridges manifests for goldens, so that each text that mlgen writes is reviewed once.

The reference is two small jobs. Its golden (`test_golden.py::test_the_reference`) shows all of its
manifests. Another golden omits a part only if it is equal to the same part of the reference,
rendered now with the same name. A comment takes its place:

    # Role bert-supervisor: as in the reference, except for
    rules:
    - jobs [bert-worker]

The parts are:

- the objects of the supervisor, the permissions of a launcher, and the Service of the job,
- containers that mlgen adds, such as `wait-for-peers`,
- the labels that all objects or pods have. `# of role worker` has the labels of the reference's
  object with `mlgen.dev/role: worker`, `# of config` those of an object with this component,
- the labels of a selector: `{of role worker}`.

An object of another replica, or of another job of a matrix, is shown by its differences from the
object of the first one, with its own job's name. A rule of a Role is its resources and names if it
has the groups and verbs of the reference. The text of a script is the path of an equal file in
`templates/scripts`. Everything else is shown.

So kubectl cannot apply a golden. Tests that need manifests use `support.rendered`.
"""

import re
from base64 import b64decode
from functools import cache
from hashlib import sha256

import archives
import yaml
from support import LOADER, ROOT, load_all

from mlgen.variants.name_hash import ALPHABET, LENGTH
from mlgen.version import VERSION

LAUNCHER = """
apiVersion: mlgen.dev/v1alpha1
kind: TrainingJob
metadata: {name: NAME}
spec:
  framework: mpi
  image: example/reference:1
  options: {transport: kubectl-exec}
  roles:
    launcher: {command: [mpirun, train]}
    worker: {replicas: 2}
"""
PEERS = """
apiVersion: mlgen.dev/v1alpha1
kind: TrainingJob
metadata: {name: NAME}
spec:
  framework: jax
  image: example/reference:1
  roles:
    worker: {replicas: 2}
"""

SCRIPTS = {file.name: file.read_text() for file in (ROOT / "templates/scripts").iterdir()}
ARCHIVE = re.compile(r"^(binaryData:\n  supervisor\.pyz): '([\w+/=]+)'$", re.MULTILINE)
VERSIONS = re.compile(rf"(Made by mlgen |mlgen\.dev/version: |mlgen:)'?{re.escape(VERSION)}'?")
"""The version of mlgen in manifests. A golden has VERSION, so that no release changes goldens."""

HEAD = re.compile(r"# (\S+): (\w+), .* Made by mlgen \S+\n")
REFERENCE = "in the reference"
HASH = rf"^# [\w-]+-([{ALPHABET}]{{{LENGTH}}}): .* Made by mlgen \S+$"
"""A job with `nameSuffix: hash`. Its hash is shown once: it changes with everything."""

COMMENTS = re.compile(r"(?:#.*\n)*")
SUPERVISES = "mlgen.dev/supervises"


@cache
def reference(job, name="reference"):
    """Return the manifests of LAUNCHER or PEERS, in full."""
    from support import manifests_text as text

    from mlgen import validate

    return shortened(text(validate(job.replace("NAME", name)).parts, "yaml"))


def golden_text(text):
    """Return manifests as a golden shows them."""
    head, documents, seen = None, [], {}
    for document in split(shortened(text)):
        head = HEAD.match(document) or head
        documents.append(of_job(*head.groups()).document(document, seen) if head else document)
    hashes = re.findall(HASH, text, re.MULTILINE)
    comment = "".join(f"# The hash {value} is abbreviated as HASH.\n" for value in hashes)
    return comment + re.sub("|".join(hashes) or "$^", "HASH", "---\n".join(documents))


def shortened(text):
    """Return manifests with the names of the supervisor's modules instead of its archive.

    The version of mlgen and the digest of the archive are omitted.
    """
    for encoded in {match[2] for match in ARCHIVE.finditer(text)}:
        content = b64decode(encoded)
        text = text.replace(f"@sha256:{sha256(content).hexdigest()}", "@sha256:DIGEST")
        text = text.replace(f"'{encoded}'", ", ".join(archives.modules(content)))
    return VERSIONS.sub(r"\1VERSION", text)


def split(text):
    """Return the documents of a stream."""
    return re.split(r"^---\n", text, flags=re.MULTILINE)


def indentation(line):
    return len(line) - len(line.lstrip())


def is_item(line):
    return line.lstrip().startswith("- ")


def entries(lines):
    """Return the lines of each entry of a mapping or list in block style."""
    found = []
    for line in lines:
        if found:
            first = found[0][0]
            starts = line and indentation(line) == indentation(first)
        if not found or (starts and is_item(line) == is_item(first)):
            found.append([line])
        else:
            found[-1].append(line)
    return found


def value(entry):
    """Return the lines of the mapping or list in an entry, or [] for another value."""
    if is_item(entry[0]):
        in_block = re.match(r" *- [\w.-]+:( |$)", entry[0])
        return [entry[0].replace("- ", "  ", 1), *entry[1:]] if in_block else []
    return entry[1:] if entry[0].endswith(":") else []


def key(entry):
    """Return the key of an entry of a mapping, or the name of an item of a list."""
    pattern = r" *- \{?(?:name: )?([^,}]*)" if is_item(entry[0]) else r" *([^:]*)"
    return re.match(pattern, entry[0])[1]


def everything(lines):
    """Return the entries of a mapping or list, and of all mappings and lists in it."""
    for entry in entries(lines):
        yield entry
        yield from everything(value(entry)) if value(entry) else ()


def read(lines):
    return yaml.load("\n".join(lines), LOADER)


def identity(lines):
    """Return the kind and name of an object."""
    kind = next((line.removeprefix("kind: ") for line in lines if line.startswith("kind: ")), "")
    name = next(
        (line.removeprefix("  name: ") for line in lines if line.startswith("  name: ")), ""
    )
    return kind, name


def is_container(entry):
    return is_item(entry[0]) and any(line.strip().startswith("image:") for line in entry)


@cache
def waiting():
    """Return the container of PEERS that waits."""
    lines = reference(PEERS).splitlines()
    entry = next(entry for entry in everything(lines) if key(entry) == "wait-for-peers")
    return {"wait-for-peers": entry}


@cache
def of_job(job, framework):
    return Abridger(job, framework)


class Abridger:
    """Abridges the objects of a job with the parts of the reference.

    Attributes:
        job: the name of the job.
        objects: the objects that are shown by their differences, by kind and name.
        containers: the containers that mlgen adds, by name.
        labels: the labels of the reference's objects and pods, by their description, with `*` for
            the component.
        selector: the two labels that select the pods of a role: the job and the role.
    """

    def __init__(self, job, framework):
        self.job = job
        label = "app.kubernetes.io/name: "
        text = reference(LAUNCHER, job).replace(f"{label}mpi\n", f"{label}{framework}\n")
        self.objects, self.containers, self.labels = {}, {}, {}
        for document in split(text)[1:]:
            lines = COMMENTS.sub("", document, count=1).splitlines()
            kind, name = identity(lines)
            if name.endswith("-supervisor") or kind not in ("Job", "StatefulSet"):
                self.objects[kind, name] = lines
            for entry in everything(lines):
                if is_container(entry):
                    self.containers[key(entry)] = entry
                if key(entry) == "labels":
                    self._learn(entry, in_pod=entry[0].startswith("   "))
        sets = [item for item in load_all(text) if item["kind"] == "StatefulSet"]
        self.selector = list(sets[0]["spec"]["selector"]["matchLabels"])
        del self.objects["ConfigMap", f"{job}.config"], self.containers["main"]
        self.containers |= waiting()

    def _learn(self, entry, *, in_pod):
        lines = [line.strip() for line in entry[1:] if SUPERVISES not in line]
        component = lines[2].split(": ")[1]
        if component == "supervisor":
            return
        values = [line.split(": ")[1] for line in lines]
        has_role, decides = values.count(component) == 2, "'true'" in values
        place = ("pods of role *" if in_pod else "role *") if has_role else "*"
        place += ", without the label of the job" * (component == "status")
        template = [re.sub(f": {component}$", ": *", line) for line in lines]
        self.labels.setdefault(place + ", which decides" * decides, template)

    def document(self, text, seen):
        """Return an object, without the parts that are equal to those of another object.

        Args:
            text: the object.
            seen: the objects of the stream so far, by kind and name.
        """
        comments = COMMENTS.match(text)[0]
        lines = text.removeprefix(comments).splitlines()
        if not lines:
            return text
        kind, name = identity(lines)
        of, theirs = self.counterpart(kind, name, seen)
        seen[kind, name] = lines
        seen.setdefault("job", self.job)
        shown = self.differences(lines, theirs) if theirs else lines
        if of == REFERENCE or (theirs and len(shown) <= len(lines) / 2):
            shown = [f"# {kind} {name}: {as_(of, shown)}", *shown]
        else:
            shown = self.shown(lines)
        return comments + self.short_selectors("".join(f"{line}\n" for line in shown))

    def counterpart(self, kind, name, seen):
        """Return the object to which an object is compared: a description, and its lines or []."""
        if (kind, name) in self.objects:
            return REFERENCE, self.objects[kind, name]
        base, _, index = name.rpartition("-")
        if index.isdecimal() and (kind, f"{base}-0") in seen:
            return f"{base}-0", seen[kind, f"{base}-0"]
        job = seen.get("job", self.job)
        other = name.replace(self.job, job)
        lines = seen.get((kind, other), []) if job != self.job else []
        return other, [line.replace(job, self.job) for line in lines]

    def shown(self, lines):
        """Return the lines of a mapping or list, with abridged labels, containers and scripts."""
        return [line for entry in entries(lines) for line in self.entry(entry)]

    def entry(self, entry):
        first, name = entry[0], key(entry)
        if is_item(first) and name in self.containers and len(entry) > 1:
            rest = self.differences(value(entry)[1:], value(self.containers[name])[1:])
            return [f"{first}  # {as_(REFERENCE, rest)}", *rest]
        if name == "labels" and value(entry):
            return self.short_labels(entry)
        if name in SCRIPTS and first.endswith(": |"):
            indent = " " * indentation(first)
            script = "".join(f"{line.removeprefix(indent + '  ')}\n" for line in entry[1:])
            same = script == SCRIPTS[name]
            return [f"{indent}{name}: templates/scripts/{name}"] if same else entry
        if first.endswith(": |") and entry[1].strip() == "---":
            return [first, *self.stream(entry[1:])]
        inner = self.shown(value(entry)) if value(entry) else entry[1:]
        if is_item(first) and value(entry):
            return [first, *inner[1:]]
        return [first, *inner]

    def stream(self, lines):
        """Return the manifests in a value of a ConfigMap."""
        indent = " " * indentation(lines[0])
        text = "".join(f"{line.removeprefix(indent)}\n" for line in lines)
        seen = {}
        shown = "---\n".join(self.document(document, seen) for document in split(text))
        return [indent + line for line in shown.splitlines()]

    def short_labels(self, entry):
        """Return labels without those of the longest set of the reference that they contain."""
        lines = [line.strip() for line in entry[1:]]
        component = lines[2].partition(": ")[2] if len(lines) > 2 else ""
        for place, template in sorted(self.labels.items(), key=lambda item: -len(item[1])):
            theirs = [line.replace("*", component) for line in template]
            if [line for line in lines if line in theirs] == theirs:
                rest = [line for line in entry[1:] if line.strip() not in theirs]
                return [f"{entry[0]}  # of {place.replace('*', component)}", *rest]
        return entry

    def short_selectors(self, text):
        """Return an object with descriptions for the labels that select pods in the reference."""
        job, role = (re.escape(f"{label}: ") for label in self.selector)
        name = re.escape(self.job)
        text = re.sub(rf"{{{job}{name}}}", "{of the job}", text)
        text = re.sub(rf"{{{job}{name}, {role}([\w-]+)", r"{of role \1", text)
        return re.sub(
            rf"^( +){job}{name}\n\1{role}(.*)", r"\1# of role \2", text, flags=re.MULTILINE
        )

    def differences(self, mine, theirs):
        """Return the entries of a mapping that differ from others, and names of missing ones."""
        lines = []
        others = {key(entry): entry for entry in entries(theirs)}
        for entry in entries(mine):
            other = others.pop(key(entry), None)
            lines += self.difference(entry, other) if other else self.entry(entry)
        indent = " " * indentation((mine or theirs)[0])
        return [*lines, *[f"{indent}# without {name}" for name in others]]

    def difference(self, entry, other):
        """Return the lines of an entry that differ from another entry with the same key."""
        mine, theirs = value(entry), value(other)
        if entry == other:
            return []
        if not mine or not theirs:  # the length of a name can change the style of a value
            notes = [each[0].partition("  # ")[2] for each in (entry, other)]
            return [] if read(entry) == read(other) and notes[0] == notes[1] else entry
        if entry[0] == "rules:":
            rest = rules(mine, theirs)
        elif is_item(entry[0]):
            rest = self.differences(mine[1:], theirs[1:])
        elif not is_item(mine[0]):
            rest = self.differences(mine, theirs)
        else:
            items, others = entries(mine), entries(theirs)
            if [key(item) for item in items] != [key(item) for item in others]:
                return self.entry(entry)
            pairs = zip(items, others, strict=True)
            rest = [line for pair in pairs for line in self.difference(*pair)]
        return [entry[0], *rest] if rest else []


def as_(other, rest):
    return f"as {other}{', except for' if rest else ''}"


def rules(mine, theirs):
    """Return the rules of a Role. Those with the reference's groups and verbs are shortened."""
    known = {tuple(rule["resources"]): rule for rule in read(theirs)}
    lines = []
    for entry in entries(mine):
        (rule,) = read(entry)
        names = rule.get("resourceNames")
        other = dict(known.get(tuple(rule["resources"]), {}))
        if names:
            other["resourceNames"] = names
        short = f"- {', '.join(rule['resources'])}" + (f" [{', '.join(names)}]" if names else "")
        lines += [short] if rule == other else entry
    return lines

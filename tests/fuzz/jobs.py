"""Random job files that match the schema."""

import random

from support import FIXTURES, load

from mlgen import frameworks
from mlgen.jobfile.schema import base

DELICATE = (
    "preflight",
    "restartPolicy",
    "retryableExitCodes",
    "successPolicy",
    "waitFor",
    "network",
    "scheduling",
    "security",
    "tensorboard",
    "volumes",
    "activeDeadlineSeconds",
    "backoffLimit",
    "backoffLimitPerIndex",
    "maxFailedIndexes",
)
"""Fields that are rarely valid at random. A job has at most one of them."""

VALID = {
    "claims": [
        {
            "data": {
                "accessModes": ["ReadWriteMany"],
                "resources": {"requests": {"storage": "1Gi"}},
            }
        }
    ],
    "command": [["python", "train.py"], []],
    "image": ["example/fuzz:1", "registry.example.com/größe"],
    "serviceAccountName": ["trainer", "a b"],
    "tolerations": [[{"key": "gpu", "operator": "Exists"}], [{"value": "x"}], []],
}
"""Values of fields with rules that a schema cannot express. Most of them are valid."""

TEXTS = ["x", "a b", "1e-5", "größe", "$(RANK)", "x" * 70]


JOBS_OF_FIXTURES = [load(path.read_text())["spec"] for path in FIXTURES]
KNOWN = {
    name: [spec["roles"] for spec in JOBS_OF_FIXTURES if spec["framework"] == name]
    for name in frameworks.names()
}
"""The roles of the fixtures, by framework. Random roles are rarely valid."""


OF_KUBERNETES = (dict, list)
SHAPELESS = {"type", "description", "examples", "items", "required", "minLength", "pattern"}
"""The keywords of a value whose shape only the API of Kubernetes describes."""


class Writer:
    """Generates values that match a part of the schema."""

    def __init__(self, chance):
        self.random = chance
        self.definitions = base()["definitions"]

    def value(self, node):
        if "$ref" in node:
            return self.value(self.definitions[node["$ref"].rpartition("/")[2]])
        if "const" in node:
            return node["const"]
        if "enum" in node:
            return self.random.choice(node["enum"])
        kinds = node.get("type", "object")
        kind = self.random.choice(kinds) if isinstance(kinds, list) else kinds
        examples = [each for each in node.get("examples", ()) if isinstance(each, OF_KUBERNETES)]
        inner = node.get("items", node)
        if kind in ("object", "array") and examples and set(inner) <= SHAPELESS:
            return self.random.choice([each for each in examples if each])
        return getattr(self, kind)(node)

    def null(self, _node):
        return None

    def boolean(self, _node):
        return self.random.random() < 0.5

    def integer(self, node):
        least = node.get("minimum", 0)
        return min(least + self.random.randrange(6), node.get("maximum", least + 9))

    number = integer

    def string(self, node):
        examples = [e for e in node.get("examples", ()) if isinstance(e, str)]
        return self.random.choice(examples if "pattern" in node and examples else TEXTS)

    def array(self, node):
        count = max(node.get("minItems", 0), self.random.randrange(3))
        items = [self.value(node.get("items", {})) for _ in range(count)]
        return (
            list({repr(item): item for item in items}.values())
            if node.get("uniqueItems")
            else items
        )

    def object(self, node):
        properties = node.get("properties", {})
        wanted = {name for name in properties if self.random.random() < 0.3}
        alternatives = [name for one in node.get("oneOf", []) for name in one["required"]]
        wanted -= set(alternatives)
        wanted |= {self.random.choice(alternatives)} if alternatives else set()
        wanted |= set(node.get("required", []))
        if properties and not wanted and node.get("minProperties"):
            wanted = {self.random.choice(list(properties))}
        chosen = [name for name in properties if name in wanted]
        values = {
            name: self.value(properties[name]) for name in chosen[: node.get("maxProperties")]
        }
        too_few = node.get("minProperties", 0) > len(values)
        if isinstance(node.get("additionalProperties"), dict) and (
            too_few or self.random.random() < 0.5
        ):
            values["cpu"] = self.value(node["additionalProperties"])
        return values


def job(framework, seed):
    """Return a job file that matches the schema, without features that have their own tests."""
    writer = Writer(random.Random(f"{framework} {seed}"))
    shapes = dict(base()["properties"]["spec"]["properties"])
    special = {"framework", "matrix", "options", "roles", "template"}
    special |= {*DELICATE} - {DELICATE[seed % len(DELICATE)]}
    spec = writer.object({"properties": {n: shapes[n] for n in shapes if n not in special}})
    spec.get("runPolicy", {}).pop("managedBy", None)  # always rejected
    known = writer.random.choice(KNOWN[framework])
    sensible(spec, writer)
    roles = {name: writer.object(base()["definitions"]["role"]) for name in known}
    for name, role in roles.items():
        for field in special:
            role.pop(field, None)
        sensible(role, writer)
        for wait in role.get("waitFor", []):
            wait["role"] = writer.random.choice(list(known))
        if writer.random.random() < 0.8:
            role["replicas"] = (known[name] or {}).get("replicas", 1)
    return {
        "apiVersion": "mlgen.dev/v1alpha1",
        "kind": "TrainingJob",
        "metadata": {"name": "job", "namespace": "fuzz"},
        "spec": {
            "image": "example/fuzz:1",
            **spec,
            "framework": framework,
            "options": writer.object({"properties": frameworks.options(framework)}),
            "roles": {name: role for name, role in roles.items() if writer.random.random() < 0.9},
        },
    }


def sensible(holder, writer):
    """Replace values that are rarely valid at random."""
    for name in sorted(VALID.keys() & holder.keys()):
        is_valid = writer.random.random() < 0.9
        holder[name] = VALID[name][0] if is_valid else writer.random.choice(VALID[name])

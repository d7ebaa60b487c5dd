"""`schemas/kubernetes/api.json` → `prepared/definitions.py`, which loads without a JSON parser."""

from mlgen.kubernetes.definitions import read


def files() -> dict[str, str]:
    """Return the module."""
    rows = "".join(f"    {name!r}: {data!r},\n" for name, data in read().items())
    return {"definitions.py": f'"""The objects of Kubernetes\' API."""\n\nAPI = {{\n{rows}}}\n'}

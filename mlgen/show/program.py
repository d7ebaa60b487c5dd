"""Rendered manifests → the source of the programs in their ConfigMaps, for a reviewer."""

import zipfile
from base64 import b64decode
from collections.abc import Iterable, Iterator
from hashlib import sha256
from io import BytesIO

from mlgen.bounds import SOURCE_BYTES
from mlgen.checks.pods import items_of
from mlgen.checks.verify import OURS, is_known, program_path
from mlgen.documents.files import Text
from mlgen.documents.reader import read_documents
from mlgen.kubernetes.objects import Object
from mlgen.kubernetes.values import value_at
from mlgen.objects.program import FILE


def sources(texts: Iterable[Text]) -> str:
    """Return each program with a heading for the archive, and one for each file in it.

    Raises:
        ValueError: there is no program, or it is not an archive that mlgen could have built.
    """
    found = "\n".join(map(_source, _with_program(texts)))
    if not found:
        raise ValueError(f"no ConfigMap with {FILE}; pass manifests: mlgen render job.yaml")
    return found


def _with_program(texts: Iterable[Text]) -> Iterator[Object]:
    documents = (document for text in texts for document in read_documents(text))
    for document in documents:
        for _, item in [] if isinstance(document, list) else items_of(document.data):
            if isinstance(item, dict) and program_path(item):
                yield item


def _source(item: Object) -> str:
    name = value_at(item, ("metadata", "name"))
    try:
        content = b64decode(item["binaryData"][FILE], validate=True)
        with zipfile.ZipFile(BytesIO(content)) as archive:
            files = [(each.filename, _read(archive, each)) for each in archive.infolist()]
    except Exception as error:  # noqa: BLE001 - anything can be in the place of the archive
        raise ValueError(f"ConfigMap {name}: {FILE} is not an archive of mlgen: {error}") from None
    verdict = OURS if is_known(item) else f"not {OURS}"
    lines = [f"# ConfigMap {name}: {FILE}, sha256:{sha256(content).hexdigest()}: {verdict}"]
    for file, text in files:
        # Each module in `source` follows a form feed and its path.
        parts = f"\f{file}\n{text}" if not text.startswith("\f") else text
        lines += [f"# {part.rstrip()}\n" for part in parts.split("\f")[1:]]
    return "\n".join(lines)


def _read(archive: zipfile.ZipFile, file: zipfile.ZipInfo) -> str:
    with archive.open(file) as stream:
        content = stream.read(SOURCE_BYTES + 1)
    if len(content) > SOURCE_BYTES:
        raise ValueError(f"{file.filename} has more than {SOURCE_BYTES} bytes")
    return content.decode(errors="backslashreplace")

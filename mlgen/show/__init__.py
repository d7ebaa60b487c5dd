"""Rendered jobs → pages for a person: a job, one of its replicas, or the whole job file.

For a reviewer, also the source of the programs in the ConfigMaps of rendered manifests.
"""

import zipfile
from base64 import b64decode
from collections.abc import Iterable, Iterator, Sequence
from hashlib import sha256
from io import BytesIO

from mlgen.checks.pods import items_of
from mlgen.checks.verify import OURS, is_known, program_path
from mlgen.documents.files import Text
from mlgen.documents.reader import read_documents
from mlgen.input_limits import SOURCE_BYTES
from mlgen.kubernetes.objects import Object
from mlgen.kubernetes.values import value_at
from mlgen.objects.supervisor import FILE
from mlgen.result import Rendered
from mlgen.show.defaults import whole
from mlgen.show.job import page
from mlgen.show.replica import replica_page


def text(jobs: Sequence[Rendered], replica: str | None = None, *, defaults: bool = False) -> str:
    """Return the pages of jobs.

    Args:
        jobs: the rendered jobs.
        replica: show only this replica of the single job, such as `worker-3`.
        defaults: show the job files with all defaults instead.

    Raises:
        ValueError: there is no such replica, or more than one job.
    """
    if replica is not None:
        return replica_page(jobs, replica)
    if defaults:
        return "".join(map(whole, jobs))
    return "\n".join(map(page, jobs))


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

"""A client of the Kubernetes API server, for the requests of the supervisor."""

from __future__ import annotations

import http.client
import json
import ssl
import time
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote, urlencode

from mlgen.runtime import answers
from mlgen.runtime.answers import MAX_BYTES, ApiError, Event, Object, Objects
from mlgen.runtime.clock import Clock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""The directory in which the kubelet mounts the token (and renews it), the CA and the namespace:
https://kubernetes.io/docs/tasks/run-application/access-api-from-pod/"""

GROUPS = {"Job": "batch/v1", "StatefulSet": "apps/v1"}
"""API versions by kind. Other kinds are in the core group."""

MANAGER = {"fieldManager": "mlgen-supervisor"}
TIMEOUT, LOG_TIMEOUT, WATCH_SECONDS, MAX_DELAY = 30.0, 5.0, 300, 30.0
PAGE = "500"
"""The page size, as in kubectl: a page of pods has a few MB."""

NOT_FOUND, CONFLICT, GONE = 404, 409, 410
REFUSED = (400, 403, 405, 413, 415, 422)
"""Statuses of a forbidden or invalid request. A 401 is not permanent: the token is renewed."""

log_line = partial(print, flush=True)


class Api:
    """The API server, with the credentials in `account`. `server` is its name in errors."""

    def __init__(
        self,
        connect: Callable[[float], http.client.HTTPConnection],
        server: str,
        account: Path,
        sleep: Callable[[float], None] = time.sleep,
        log: Callable[[str], None] = log_line,
    ) -> None:
        self._connect, self._server = connect, server
        self._account = account
        self.namespace = (account / "namespace").read_text().strip()
        self._sleep, self._log = sleep, log
        self.clock = Clock()
        self.answered = False
        """True after the first response, even an error."""

    def get(self, kind: str, name: str, version: str = "") -> Object:
        """Return an object. `version` is required for API groups that are not in GROUPS."""
        answer = self._request("GET", self._path(kind, name, version))
        return answers.shaped(kind, answers.json_of(answer))

    def list(self, kind: str, **selectors: str) -> Event:
        """Return all objects. The selectors are query parameters of the API."""
        items: Objects = []
        query = {**selectors, "limit": PAGE}
        while True:
            page = answers.page(kind, self._request("GET", self._path(kind, **query)))
            items += page.objects
            if not page.next:
                return Event("LISTED", items, page.version)
            if not page.objects or page.next == query.get("continue"):
                raise ApiError(f"unexpected answer: a list of {kind}s without an end")
            query["continue"] = page.next

    def log(self, pod: str, **query: str) -> bytes:
        """Return the log of a container. The API server asks the kubelet, which may be slow."""
        path = self._path("Pod", f"{pod}/log", **query)
        with self._response("GET", path, timeout=LOG_TIMEOUT) as response:
            return response.read(int(query["limitBytes"]))

    def create(self, kind: str, body: Object) -> Object:
        """Create an object."""
        answer = self._request("POST", self._path(kind, **MANAGER), body)
        return answers.shaped(kind, answers.json_of(answer))

    def patch(self, kind: str, name: str, body: Object, subresource: str = "") -> None:
        """Patch an object or its `scale`, with `metadata.resourceVersion` as a precondition."""
        if subresource:
            self._scale(kind, name, body)
        else:
            self._request("PATCH", self._path(kind, name, **MANAGER), body)

    def _scale(self, kind: str, name: str, body: Object) -> None:
        """Apply a Scale server-side, which records the manager of `replicas` even if it is 0.

        A merge patch does not record it, because a Scale omits a 0 (k8s.io/api/autoscaling/v1,
        ScaleSpec). A GitOps tool could then not identify the author of the change.
        """
        metadata = {"name": name, **body.get("metadata", {})}
        scale = {"apiVersion": "autoscaling/v1", "kind": "Scale", **body, "metadata": metadata}
        path = self._path(kind, f"{name}/scale", force="true", **MANAGER)
        self._request("PATCH", path, json.dumps(scale))

    def apply(self, version: str, kind: str, name: str, text: str) -> None:
        """Apply a YAML document server-side, with force: take its fields over from other managers.

        https://kubernetes.io/docs/reference/using-api/server-side-apply/
        """
        options = {"fieldManager": "mlgen", "force": "true", "fieldValidation": "Strict"}
        self._request("PATCH", self._path(kind, name, version, **options), text)

    def delete(self, kind: str, name: str, body: Object) -> None:
        """Delete an object with DeleteOptions, which contain the preconditions."""
        self._request("DELETE", self._path(kind, name), body)

    def watch(self, kind: str, **selectors: str) -> Iterator[Event]:
        """Yield `LISTED` with all objects, then each change, forever.

        A watch continues where the server has ended it. After any other end, after a watch without
        an event or a bookmark, and when the resource version goes back because etcd was restored,
        the objects are listed again. Only the first of consecutive failures is logged.
        https://kubernetes.io/docs/reference/using-api/api-concepts/#efficient-detection-of-changes
        """
        version, failures, is_logged = "", 0, False
        while True:
            began = time.monotonic()
            try:
                if not version:
                    listed = self.list(kind, **selectors)
                    version = listed.version
                    yield listed
                started = version
                for event in self._events(kind, version, selectors):
                    if answers.is_older(event.version, version):
                        raise ApiError("the resource version goes back", GONE)
                    version, failures, is_logged = event.version, 0, False
                    if event.objects:
                        yield event
                if version != started:
                    continue
                problem = ApiError("a watch without events", GONE)
            except ApiError as error:
                problem = error
            if not is_logged and problem.code != GONE:
                self._log(f"cannot watch {kind}s: {problem}")
                is_logged = True
            version = ""
            failures = 1 if time.monotonic() - began > MAX_DELAY else failures + 1
            self._sleep(max(problem.retry_after, min(2.0 ** (failures - 2), MAX_DELAY)))

    def _events(self, kind: str, version: str, selectors: dict[str, str]) -> Iterator[Event]:
        """Yield the events of one watch until the server ends it."""
        options = {"resourceVersion": version, "timeoutSeconds": str(WATCH_SECONDS)}
        flags = {"watch": "true", "allowWatchBookmarks": "true"}
        path = self._path(kind, **selectors, **flags, **options)
        with self._response("GET", path, timeout=TIMEOUT + WATCH_SECONDS) as response:
            while line := response.readline(MAX_BYTES + 1):
                yield answers.event(kind, line)

    def _path(self, kind: str, name: str = "", version: str = "", **query: str) -> str:
        version = version or GROUPS.get(kind, "v1")
        group = "api" if version == "v1" else "apis"
        base = f"/{group}/{version}/namespaces/{self.namespace}/{kind.lower()}s"
        path = f"{base}/{quote(name)}" if name else base
        return path + (f"?{urlencode(query)}" if query else "")

    def _request(self, method: str, path: str, body: Object | str | None = None) -> bytes:
        with self._response(method, path, body) as response:
            return response.read(MAX_BYTES + 1)

    @contextmanager
    def _response(
        self, method: str, path: str, body: Object | str | None = None, timeout: float = TIMEOUT
    ) -> Iterator[http.client.HTTPResponse]:
        """Yield a successful response. Raise ApiError for an error, a broken or no response."""
        media = "merge-patch+json" if method == "PATCH" else "json"
        data = json.dumps(body) if body else None
        if isinstance(body, str):
            media, data = "apply-patch+yaml", body
        request = f"{method} {path.partition('?')[0]}"
        try:
            headers = {
                "Accept": "application/json",
                "Authorization": f"Bearer {(self._account / 'token').read_text().strip()}",
                "Content-Type": f"application/{media}",
            }
            with closing(self._connect(timeout)) as connection:
                connection.request(method, path, data.encode() if data else None, headers)
                response = connection.getresponse()
                self.answered = True
                if date := answers.date(response.headers.get("Date", "")):
                    self.clock.hear(date)
                if response.status >= http.client.BAD_REQUEST:
                    text = answers.message(response.read(10_000))
                    wait = answers.retry_after(response.headers.get("Retry-After", ""))
                    raise ApiError(f"{request}: {text}", response.status, wait)
                yield response
        except (OSError, http.client.HTTPException, ValueError) as problem:
            text = f"{request} at {self._server}: {type(problem).__name__}: {problem}"
            raise ApiError(text) from problem


def find(client: Api, kind: str, name: str, version: str = "") -> Object | None:
    """Return an object; None if it does not exist."""
    try:
        return client.get(kind, name, version)
    except ApiError as problem:
        if problem.code != NOT_FOUND:
            raise
        return None


def in_cluster(host: str, port: str) -> Api:
    """Return a client of the pod's cluster; host and port are `KUBERNETES_SERVICE_*`."""

    def connect(timeout: float) -> http.client.HTTPConnection:
        # Read the CA for each connection, because it may be renewed.
        context = ssl.create_default_context(cafile=str(ACCOUNT / "ca.crt"))
        # Python 3.13 sets this flag. OpenSSL then rejects certificates without key identifiers,
        # such as those of EKS: https://github.com/kubernetes-client/python/issues/2394
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        return http.client.HTTPSConnection(host, int(port), timeout=timeout, context=context)

    return Api(connect, f"{host} port {port}", ACCOUNT)

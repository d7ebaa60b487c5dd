"""A client of the Kubernetes API server, for the requests of the supervisor."""

from __future__ import annotations

import http.client
import json
import ssl
import time
from contextlib import closing, contextmanager
from email.utils import mktime_tz, parsedate_tz
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""The directory in which the kubelet mounts the token (and renews it), the CA and the namespace:
https://kubernetes.io/docs/tasks/run-application/access-api-from-pod/"""

GROUPS = {"Job": "batch/v1", "StatefulSet": "apps/v1"}
"""API versions by kind. Other kinds are in the core group."""

MANAGER = {"fieldManager": "mlgen-supervisor"}
TIMEOUT, WATCH_SECONDS, MAX_DELAY = 30.0, 300, 30.0
PAGE = "500"
"""The page size, as in kubectl: a page of pods has a few MB."""

NOT_FOUND, CONFLICT, GONE = 404, 409, 410
REFUSED = (400, 403, 405, 413, 415, 422)
"""Statuses of a forbidden or invalid request. A 401 is not permanent: the token is renewed."""

Object = dict[str, Any]
Objects = list[Object]

log_line = partial(print, flush=True)


def message(answer: str) -> str:
    """Return the message of a Status response, or the first 1,000 characters of other responses."""
    try:
        return str(json.loads(answer)["message"])
    except (ValueError, TypeError, KeyError):
        return answer[:1000]


class ApiError(Exception):
    """A request failed. `code` is the HTTP status, or 0 without a response."""

    def __init__(self, message: str, code: int = 0, retry_after: str = "") -> None:
        text = " ".join(message.split())  # an error is one line of a log
        super().__init__(f"{code}: {text}" if code else text)
        self.code = code
        self.retry_after = float(retry_after) if retry_after.isdigit() else 0.0


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
        self.answered = False
        """True after the first response, even an error."""
        self._offset: float | None = None
        """Seconds from the monotonic clock to the clock of the server."""
        self._latest = 0.0

    def now(self) -> float:
        """Return the time by the server's clock, or by the local clock before its first response.

        The time never decreases, although the server rounds it down to a second.
        """
        if self._offset is None:
            return time.time()
        self._latest = max(self._latest, time.monotonic() + self._offset)
        return self._latest

    def get(self, kind: str, name: str, version: str = "") -> Object:
        """Return an object. `version` is required for API groups that are not in GROUPS."""
        return self._request("GET", self._path(kind, name, version))

    def list(self, kind: str, keep: Callable[[Object], Object], **selectors: str) -> Objects:
        """Return `keep(object)` for each object. The selectors are query parameters of the API."""
        return self._list(kind, keep, selectors)[0]

    def _list(
        self, kind: str, keep: Callable[[Object], Object], selectors: dict[str, str]
    ) -> tuple[Objects, str]:
        """Return the objects, and the resource version of the list."""
        items: Objects = []
        query = {**selectors, "limit": PAGE}
        while True:
            page = self._request("GET", self._path(kind, **query))
            items += map(keep, page["items"])
            query["continue"] = page["metadata"].get("continue", "")
            if not query["continue"]:
                return items, page["metadata"].get("resourceVersion", "")

    def create(self, kind: str, body: Object) -> Object:
        """Create an object."""
        return self._request("POST", self._path(kind, **MANAGER), body)

    def patch(self, kind: str, name: str, body: Object, subresource: str = "") -> Object:
        """Patch an object or its `scale`, with `metadata.resourceVersion` as a precondition."""
        if subresource:
            return self._scale(kind, name, body)
        return self._request("PATCH", self._path(kind, name, **MANAGER), body)

    def _scale(self, kind: str, name: str, body: Object) -> Object:
        """Apply a Scale server-side, which records the manager of `replicas` even if it is 0.

        A merge patch does not record it, because a Scale omits a 0 (k8s.io/api/autoscaling/v1,
        ScaleSpec). A GitOps tool could then not identify the author of the change.
        """
        metadata = {"name": name, **body.get("metadata", {})}
        scale = {"apiVersion": "autoscaling/v1", "kind": "Scale", **body, "metadata": metadata}
        path = self._path(kind, f"{name}/scale", force="true", **MANAGER)
        return self._request("PATCH", path, json.dumps(scale))

    def apply(self, version: str, kind: str, name: str, text: str) -> Object:
        """Apply a YAML document server-side, with force: take its fields over from other managers.

        https://kubernetes.io/docs/reference/using-api/server-side-apply/
        """
        options = {"fieldManager": "mlgen", "force": "true", "fieldValidation": "Strict"}
        return self._request("PATCH", self._path(kind, name, version, **options), text)

    def delete(self, kind: str, name: str, body: Object) -> Object:
        """Delete an object with DeleteOptions, which contain the preconditions."""
        return self._request("DELETE", self._path(kind, name), body)

    def watch(
        self, kind: str, keep: Callable[[Object], Object], **selectors: str
    ) -> Iterator[tuple[str, Objects]]:
        """Yield `LISTED` with all objects, then the type and object of each change, forever.

        After a gap, the objects are listed again. Bookmarks only update the resource version. Only
        the first of consecutive failures is logged.
        https://kubernetes.io/docs/reference/using-api/api-concepts/#efficient-detection-of-changes
        """
        version, failures, logged = "", 0, False
        while True:
            try:
                if not version:
                    objects, version = self._list(kind, keep, selectors)
                    yield "LISTED", objects
                started = version
                for event in self._events(kind, version, selectors):
                    version = event["object"]["metadata"]["resourceVersion"]
                    failures, logged = 0, False
                    if event["type"] != "BOOKMARK":
                        yield event["type"], [keep(event["object"])]
                if version == started:
                    self._sleep(1.0)  # limits the load on a server that ends watches at once
            except ApiError as problem:
                if problem.code == GONE:
                    version = ""
                elif not logged:
                    self._log(f"cannot watch {kind}s: {problem}")
                    logged = True
                failures += 1
                self._sleep(max(problem.retry_after, min(2.0 ** (failures - 2), MAX_DELAY)))

    def _events(self, kind: str, version: str, selectors: dict[str, str]) -> Iterator[Object]:
        """Yield the events of one watch until the server ends it."""
        options = {"resourceVersion": version, "timeoutSeconds": str(WATCH_SECONDS)}
        flags = {"watch": "true", "allowWatchBookmarks": "true"}
        path = self._path(kind, **selectors, **flags, **options)
        with self._response("GET", path, timeout=TIMEOUT + WATCH_SECONDS) as response:
            for line in response:
                event: Object = json.loads(line)
                if event["type"] == "ERROR":
                    raise ApiError(event["object"].get("message", ""), event["object"].get("code"))
                yield event

    def _path(self, kind: str, name: str = "", version: str = "", **query: str) -> str:
        version = version or GROUPS.get(kind, "v1")
        group = "api" if version == "v1" else "apis"
        base = f"/{group}/{version}/namespaces/{self.namespace}/{kind.lower()}s"
        return base + (f"/{name}" if name else "") + (f"?{urlencode(query)}" if query else "")

    def _request(self, method: str, path: str, body: Object | str | None = None) -> Object:
        with self._response(method, path, body) as response:
            answer: Object = json.loads(response.read())
        return answer

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
                if date := parsedate_tz(response.headers.get("Date", "")):
                    self._offset = mktime_tz(date) - time.monotonic()
                if response.status >= http.client.BAD_REQUEST:
                    text = message(response.read(10_000).decode(errors="replace"))
                    retry_after = response.headers.get("Retry-After", "")
                    raise ApiError(f"{request}: {text}", response.status, retry_after)
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

"""A client of the Kubernetes API server, for the few requests that the supervisor makes."""

from __future__ import annotations

import http.client
import json
import ssl
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""Where the kubelet mounts the token, which it renews, the CA and the namespace:
https://kubernetes.io/docs/tasks/run-application/access-api-from-pod/"""

GROUPS = {"Job": "apis/batch/v1", "StatefulSet": "apis/apps/v1"}
"""The API group of a kind; others are in the core group."""

TIMEOUT = 30.0
WATCH_SECONDS = 300
MAX_DELAY = 30.0

Object = dict[str, Any]


class ApiError(Exception):
    """The request failed and may succeed later: a lost connection, 429, 500, and so on."""

    def __init__(self, message: str, retry_after: float = 0.0) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class NotFound(ApiError):  # noqa: N818 - named as the API's reason
    """There is no such object."""


class Conflict(ApiError):  # noqa: N818
    """The object has changed since it was read, or exists already."""


class Gone(ApiError):  # noqa: N818
    """The resource version is too old to watch from."""


class Refused(ApiError):  # noqa: N818
    """The request is not allowed, or invalid."""


KINDS: dict[int, type[ApiError]] = {404: NotFound, 409: Conflict, 410: Gone}
"""https://github.com/kubernetes/community/blob/master/contributors/devel/sig-architecture/
api-conventions.md, "HTTP Status codes". 401 passes when the token has been renewed."""

REFUSED = (400, 403, 405, 413, 415, 422)


def error(code: int, message: str, retry_after: str = "") -> ApiError:
    """Return the exception for an HTTP status; `retry_after` is that header."""
    text = f"{code}: {message}"
    if code in REFUSED:
        return Refused(text)
    return KINDS.get(code, ApiError)(text, float(retry_after) if retry_after.isdigit() else 0.0)


class Api:
    """The API server as the service account `account` sees it."""

    def __init__(
        self,
        connect: Callable[[float], http.client.HTTPConnection],
        account: Path,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._connect = connect
        self._account = account
        self._namespace = (account / "namespace").read_text().strip()
        self._sleep = sleep

    def get(self, kind: str, name: str) -> Object:
        """Return an object."""
        return self._request("GET", self._path(kind, name))

    def list(self, kind: str, **selectors: str) -> Object:
        """Return a list; the selectors are those of the API, such as `labelSelector`."""
        return self._request("GET", self._path(kind, **selectors))

    def create(self, kind: str, body: Object) -> Object:
        """Create an object."""
        return self._request("POST", self._path(kind), body)

    def patch(self, kind: str, name: str, body: Object) -> Object:
        """Apply a JSON merge patch; `metadata.resourceVersion` in it is a precondition."""
        return self._request("PATCH", self._path(kind, name), body)

    def delete(self, kind: str, name: str, body: Object) -> Object:
        """Delete an object with DeleteOptions, which hold the preconditions."""
        return self._request("DELETE", self._path(kind, name), body)

    def watch(self, kind: str, **selectors: str) -> Iterator[str]:
        """Yield the type of each change, without end, and `LISTED` after each fresh list.

        The caller then reads the objects itself. Bookmarks only move the resource version on.
        https://kubernetes.io/docs/reference/using-api/api-concepts/#efficient-detection-of-changes
        """
        version, failures = "", 0
        while True:
            try:
                if not version:
                    version = self.list(kind, limit="1", **selectors)["metadata"]["resourceVersion"]
                    yield "LISTED"
                started = version
                for event in self._events(kind, version, selectors):
                    version = event["object"]["metadata"]["resourceVersion"]
                    failures = 0
                    if event["type"] != "BOOKMARK":
                        yield event["type"]
                if version == started:
                    self._sleep(1.0)  # a server that ends watches at once must not be hammered
            except Gone:
                version = ""
            except ApiError as problem:
                failures += 1
                self._sleep(max(problem.retry_after, min(2.0 ** (failures - 2), MAX_DELAY)))

    def _events(self, kind: str, version: str, selectors: dict[str, str]) -> Iterator[Object]:
        """Yield the events of one watch until the server ends it."""
        query = {
            **selectors,
            "watch": "true",
            "resourceVersion": version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(WATCH_SECONDS),
        }
        connection, response = self._open("GET", self._path(kind, **query), None, WATCH_SECONDS)
        try:
            for line in response:
                event: Object = json.loads(line)
                if event["type"] == "ERROR":
                    status = event["object"]
                    raise error(status.get("code", 500), status.get("message", ""))
                yield event
        except (OSError, http.client.HTTPException, ValueError) as problem:
            raise ApiError(f"watch {kind}: {problem!r}") from problem
        finally:
            connection.close()

    def _path(self, kind: str, name: str = "", **query: str) -> str:
        base = f"/{GROUPS.get(kind, 'api/v1')}/namespaces/{self._namespace}/{kind.lower()}s"
        return base + (f"/{name}" if name else "") + (f"?{urlencode(query)}" if query else "")

    def _request(self, method: str, path: str, body: Object | None = None) -> Object:
        connection, response = self._open(method, path, body, 0)
        try:
            answer: Object = json.loads(response.read())
        except (OSError, http.client.HTTPException, ValueError) as problem:
            raise ApiError(f"{method} {path}: {problem!r}") from problem
        finally:
            connection.close()
        return answer

    def _open(
        self, method: str, path: str, body: Object | None, seconds: float
    ) -> tuple[http.client.HTTPConnection, http.client.HTTPResponse]:
        """Return a connection and its successful response; any other response raises an error."""
        patch = method == "PATCH"
        headers = {
            "Accept": "application/json",
            "Content-Type": "application/merge-patch+json" if patch else "application/json",
        }
        connection = self._connect(TIMEOUT + seconds)
        try:
            headers["Authorization"] = f"Bearer {(self._account / 'token').read_text().strip()}"
            connection.request(method, path, json.dumps(body) if body else None, headers)
            response = connection.getresponse()
            if response.status < http.client.BAD_REQUEST:
                return connection, response
            text = response.read(1000).decode(errors="replace")
        except (OSError, http.client.HTTPException) as problem:
            connection.close()
            raise ApiError(f"{method} {path}: {problem!r}") from problem
        connection.close()
        raise error(
            response.status, f"{method} {path}: {text}", response.headers.get("Retry-After", "")
        )


def in_cluster(host: str, port: str) -> Api:
    """Return the API server of the cluster; host and port are `KUBERNETES_SERVICE_*`."""

    def connect(timeout: float) -> http.client.HTTPConnection:
        # The CA may be renewed too.
        context = ssl.create_default_context(cafile=str(ACCOUNT / "ca.crt"))
        return http.client.HTTPSConnection(host, int(port), timeout=timeout, context=context)

    return Api(connect, ACCOUNT)

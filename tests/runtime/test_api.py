"""The client against an HTTP server on localhost that answers what a test says."""

import http.client
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from mlgen.runtime.api import Api, ApiError


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def handle_all(self):
        length = int(self.headers.get("Content-Length", 0))
        body = json.loads(self.rfile.read(length) or "null")
        self.server.requests.append((self.command, self.path, dict(self.headers), body))
        answer = self.server.answers.pop(0)
        answer(self)
        self.close_connection = True

    do_GET = do_POST = do_PATCH = do_DELETE = handle_all  # noqa: N815

    def log_message(self, *_):
        pass


def answer(body, status=200, **headers):
    def send(handler):
        text = body if isinstance(body, bytes) else json.dumps(body).encode()
        handler.send_response(status)
        for name, value in headers.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.send_header("Content-Length", str(len(text)))
        handler.end_headers()
        handler.wfile.write(text)

    return send


def chunks(*lines, end=b"0\r\n\r\n"):
    """Return an answer in chunks, cut in the middle of a line as a real one may be."""

    def send(handler):
        handler.send_response(200)
        handler.send_header("Transfer-Encoding", "chunked")
        handler.end_headers()
        text = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
        for part in (text[:7], text[7:]):
            if part:
                handler.wfile.write(b"%x\r\n%s\r\n" % (len(part), part))
        handler.wfile.write(end)

    return send


def hang_up(handler):
    handler.connection.close()


@pytest.fixture
def server():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.answers, server.requests = [], []
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()


@pytest.fixture
def account(tmp_path):
    (tmp_path / "token").write_text("first\n")
    (tmp_path / "namespace").write_text("team\n")
    return tmp_path


@pytest.fixture
def slept():
    return []


@pytest.fixture
def client(server, account, slept):
    def connect(timeout):
        return http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=timeout)

    return Api(connect, account, slept.append)


def listed(version):
    return answer({"metadata": {"resourceVersion": version}, "items": []})


def event(kind, version):
    return {"type": kind, "object": {"metadata": {"resourceVersion": version}}}


def test_a_document_is_applied_server_side(client, server):
    server.answers += [answer({}), answer({})]

    client.apply("v1", "Service", "a", '{"kind": "Service"}')
    client.apply("scheduling.volcano.sh/v1beta1", "PodGroup", "b", "{}")

    (_, path, headers, body), (_, other, _, _) = server.requests
    assert path == (
        "/api/v1/namespaces/team/services/a?fieldManager=mlgen&force=true&fieldValidation=Strict"
    )
    assert headers["Content-Type"] == "application/apply-patch+yaml"
    assert body == {"kind": "Service"}
    assert other.startswith("/apis/scheduling.volcano.sh/v1beta1/namespaces/team/podgroups/b?")


@pytest.mark.parametrize(
    ("body", "text"),
    [({"kind": "Status", "message": "jobs is forbidden"}, "jobs is forbidden"), (b"oh", "oh")],
)
def test_an_error_says_what_the_status_says(body, text, client, server):
    server.answers.append(answer(body, 403))

    with pytest.raises(ApiError) as error:
        client.list("Job", len, labelSelector="a=b")

    assert str(error.value) == f"403: GET /apis/batch/v1/namespaces/team/jobs: {text}"


def test_requests_have_the_path_of_their_kind(client, server):
    first = {"items": [{"a": 1}, {"b": 2}], "metadata": {"continue": "next page"}}
    last = {"items": [{"a": 1, "b": 2}], "metadata": {}}
    server.answers += [answer({"n": 0}), answer(first), answer(last), *[answer({})] * 5]

    assert client.get("Job", "a") == {"n": 0}
    assert client.list("Pod", len, labelSelector="a=b") == [1, 1, 2]
    client.patch("Job", "a", {"spec": {"suspend": True}})
    client.patch("StatefulSet", "s", {"spec": {"replicas": 0}}, "scale")
    client.create("ConfigMap", {"data": {}})
    client.delete("Service", "a", {"propagationPolicy": "Background"})
    client.get("PodGroup", "a", "scheduling.x-k8s.io/v1alpha1")

    assert [
        ("GET", "/apis/batch/v1/namespaces/team/jobs/a", None),
        ("GET", "/api/v1/namespaces/team/pods?labelSelector=a%3Db&limit=500", None),
        (
            "GET",
            "/api/v1/namespaces/team/pods?labelSelector=a%3Db&limit=500&continue=next+page",
            None,
        ),
        (
            "PATCH",
            "/apis/batch/v1/namespaces/team/jobs/a?fieldManager=mlgen-supervisor",
            {"spec": {"suspend": True}},
        ),
        (
            "PATCH",
            "/apis/apps/v1/namespaces/team/statefulsets/s/scale?force=true&fieldManager=mlgen-supervisor",
            {
                "apiVersion": "autoscaling/v1",
                "kind": "Scale",
                "spec": {"replicas": 0},
                "metadata": {"name": "s"},
            },
        ),
        (
            "POST",
            "/api/v1/namespaces/team/configmaps?fieldManager=mlgen-supervisor",
            {"data": {}},
        ),
        ("DELETE", "/api/v1/namespaces/team/services/a", {"propagationPolicy": "Background"}),
        ("GET", "/apis/scheduling.x-k8s.io/v1alpha1/namespaces/team/podgroups/a", None),
    ] == [(method, path, body) for method, path, _, body in server.requests]
    media = [headers["Content-Type"] for _, _, headers, _ in server.requests[3:5]]
    assert media == ["application/merge-patch+json", "application/apply-patch+yaml"]


def test_a_renewed_token_is_read_again(client, server, account):
    server.answers += [answer({}), answer({})]
    client.get("Job", "a")
    (account / "token").write_text("second")
    client.get("Job", "a")

    assert ["Bearer first", "Bearer second"] == [r[2]["Authorization"] for r in server.requests]


@pytest.mark.parametrize("status", [400, 401, 403, 404, 409, 410, 422, 429, 500, 503])
def test_errors_have_a_code_and_a_time_to_retry(client, server, status):
    server.answers.append(answer({"message": "why"}, status, Retry_After="7"))

    with pytest.raises(ApiError, match=rf"{status}: GET .*why") as raised:
        client.get("Job", "a")

    assert (status, 7) == (raised.value.code, raised.value.retry_after)


def test_a_date_to_retry_after_is_passed_over():
    assert ApiError("", 429, "Wed, 21 Oct 2026 07:28:00 GMT").retry_after == 0


@pytest.mark.parametrize("broken", [hang_up, answer(b"no JSON")], ids=["hang up", "no JSON"])
def test_a_broken_answer_is_tried_again(client, server, broken):
    server.answers.append(broken)

    with pytest.raises(ApiError):
        client.get("Job", "a")


def test_nobody_listens(account):
    client = Api(lambda timeout: http.client.HTTPConnection("127.0.0.1", 1, timeout), account)

    with pytest.raises(ApiError, match="refused"):
        client.get("Job", "a")


def changes(client, kind, **selectors):
    """Yield the types of what a watch yields."""
    return (change for change, _ in client.watch(kind, len, **selectors))


def test_a_watch_tells_all_objects_and_then_each_change(client, server):
    first = {"items": [{"a": 1}], "metadata": {"continue": "next", "resourceVersion": "10"}}
    last = {"items": [{"a": 1, "b": 2}], "metadata": {"resourceVersion": "10"}}
    server.answers += [answer(first), answer(last), chunks(event("ADDED", "11"))]
    watch = client.watch("Pod", len)

    assert [("LISTED", [1, 2]), ("ADDED", [1])] == [next(watch), next(watch)]
    assert "resourceVersion=10" in server.requests[2][1]


def test_a_watch_goes_on_from_the_last_bookmark(client, server, slept):
    server.answers += [
        listed("10"),
        chunks(event("ADDED", "11"), event("BOOKMARK", "15")),
        chunks(event("MODIFIED", "16")),
    ]
    watch = changes(client, "Pod", labelSelector="a=b")

    assert ["LISTED", "ADDED", "MODIFIED"] == [next(watch) for _ in range(3)]
    assert "limit=500" in server.requests[0][1]
    assert "resourceVersion=10" in server.requests[1][1]
    assert "resourceVersion=15" in server.requests[2][1]
    assert "allowWatchBookmarks=true" in server.requests[2][1]
    assert "labelSelector=a%3Db" in server.requests[2][1]
    assert "timeoutSeconds=300" in server.requests[2][1]
    assert [] == slept


GONE = {"type": "ERROR", "object": {"code": 410, "message": "too old"}}


@pytest.mark.parametrize("gone", [chunks(GONE), answer({}, 410)], ids=["an event", "a status"])
def test_a_version_that_is_too_old_needs_a_fresh_list(client, server, slept, gone):
    server.answers += [listed("10"), gone, listed("90"), chunks(event("DELETED", "91"))]
    watch = changes(client, "Job")

    assert ["LISTED", "LISTED", "DELETED"] == [next(watch) for _ in range(3)]
    assert "resourceVersion=90" in server.requests[3][1]
    assert [0.5] == slept


def test_a_broken_watch_backs_off_and_goes_on(client, server, slept):
    server.answers += [
        hang_up,
        listed("10"),
        chunks(event("ADDED", "11"), end=b"ff\r\n{"),
        answer({}, 429, Retry_After="9"),
        hang_up,
        chunks({"type": "ERROR", "object": {}}),
        chunks(event("MODIFIED", "12")),
    ]
    watch = changes(client, "Job")

    assert ["LISTED", "ADDED", "MODIFIED"] == [next(watch) for _ in range(3)]
    assert [0.5, 0.5, 9.0, 2.0, 4.0] == slept
    assert "resourceVersion=11" in server.requests[-1][1]


def test_a_server_that_ends_watches_at_once_is_not_hammered(client, server, slept):
    server.answers += [listed("10"), chunks(), chunks(event("ADDED", "11"))]
    watch = changes(client, "Job")

    assert ["LISTED", "ADDED"] == [next(watch), next(watch)]
    assert [1.0] == slept

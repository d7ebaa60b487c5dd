"""The client, with an HTTP server on localhost whose answers a test sets."""

import http.client
import json
import shutil
import socket
import ssl
import subprocess
import threading
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import archives
import pytest
from support import missing
from test_pythons import interpreter

from mlgen.runtime import api
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

    def date_time_string(self, timestamp=None):
        return self.server.date(timestamp)


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
    server.answers, server.requests, server.date = [], [], lambda _: formatdate(usegmt=True)
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
def logged():
    return []


@pytest.fixture
def client(server, account, slept, logged):
    def connect(timeout):
        return http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=timeout)

    return Api(connect, "server", account, slept.append, logged.append)


def listed(version):
    return answer({"metadata": {"resourceVersion": version}, "items": []})


JOB = {"metadata": {"name": "a", "uid": "u"}}


def event(kind, version):
    metadata = {"name": "a", "uid": "u", "resourceVersion": version}
    return {"type": kind, "object": {"metadata": metadata}}


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
    [
        ({"kind": "Status", "message": "jobs is forbidden"}, "jobs is forbidden"),
        (b"oh", "oh"),
        (b"\xff", "\ufffd"),
    ],
)
def test_an_error_says_what_the_status_says(body, text, client, server):
    server.answers.append(answer(body, 403))

    with pytest.raises(ApiError) as error:
        client.list("Job", labelSelector="a=b")

    assert str(error.value) == f"403: GET /apis/batch/v1/namespaces/team/jobs: {text}"


def test_requests_have_the_path_of_their_kind(client, server):
    items = [{"metadata": {"name": name, "uid": name}} for name in "abc"]
    first = {"items": items[:2], "metadata": {"continue": "next page", "resourceVersion": "7"}}
    last = {"items": items[2:], "metadata": {"resourceVersion": "7"}}
    server.answers += [answer(JOB), answer(first), answer(last), *[answer(JOB)] * 5]

    assert client.get("Job", "a")["metadata"]["name"] == "a"
    found = client.list("Pod", labelSelector="a=b")
    assert ("LISTED", "7") == (found.change, found.version)
    assert ["a", "b", "c"] == [each["metadata"]["name"] for each in found.objects]
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


def test_a_log_is_read_with_a_limit_and_a_short_timeout(server, account):
    timeouts = []

    def connect(timeout):
        timeouts.append(timeout)
        return http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=5)

    client = Api(connect, "server", account)
    text = 'container "main" in pod "a" is waiting to start: ContainerCreating'
    server.answers += [answer(b"1\n2\xff\n" * 9), answer({"kind": "Status", "message": text}, 400)]

    assert client.log("a", container="main", limitBytes="6") == b"1\n2\xff\n1"
    with pytest.raises(ApiError) as error:
        client.log("a", container="main", limitBytes="6")

    path = "/api/v1/namespaces/team/pods/a/log"
    assert server.requests[0][1] == f"{path}?container=main&limitBytes=6"
    assert str(error.value) == f"400: GET {path}: {text}"
    assert timeouts == [api.LOG_TIMEOUT] * 2
    assert api.LOG_TIMEOUT < api.TIMEOUT / 5


def test_a_renewed_token_is_read_again(client, server, account):
    server.answers += [answer(JOB), answer(JOB)]
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


WAITS = {
    "7": 7,
    "3600": 30,
    "9" * 400: 0,
    "-1": 0,
    "1e9": 0,
    "\u00b2".encode().decode("latin-1"): 0,
    "Wed, 21 Oct 2026 07:28:00 GMT": 0,
}


@pytest.mark.parametrize("text", WAITS)
def test_a_server_may_ask_to_wait_for_half_a_minute(text, client, server):
    server.answers.append(answer({}, 503, Retry_After=text))

    with pytest.raises(ApiError) as raised:
        client.get("Job", "a")

    assert WAITS[text] == raised.value.retry_after


ODD = {
    "HTML": b"<html>Sign in</html>",
    "a part of an object": b'{"metadata": {"name": "a"',
    "deep JSON": b"[" * 100_000,
    "a number": b"7",
    "a text": b'"a"',
    "null": b"null",
    "a list of lists": [[]],
    "a Status": {"kind": "Status", "status": "Success"},
    "no metadata": {"spec": {}},
    "metadata that is a list": {"metadata": []},
    "no name": {"metadata": {"uid": "u"}},
    "a name of two lines": {"metadata": {"name": "a\nb", "uid": "u"}},
    "a name that is a number": {"metadata": {"name": 7, "uid": "u"}},
    "a large number": {**JOB, "status": {"active": 10**30}},
    "true instead of a number": {**JOB, "status": {"active": True}},
    "a number instead of true": {**JOB, "spec": {"suspend": 1}},
    "a condition that is a text": {**JOB, "status": {"conditions": ["Complete"]}},
}
"""Answers with the status 200 that are not the object asked for."""


@pytest.mark.parametrize("body", ODD.values(), ids=ODD)
def test_an_odd_answer_is_an_error(body, client, server):
    server.answers += [answer(body), answer(body)]

    with pytest.raises(ApiError, match="unexpected answer"):
        client.get("Job", "a")
    with pytest.raises(ApiError, match="unexpected answer"):
        client.list("Job", labelSelector="a=b")


@pytest.mark.parametrize("items", [{"a": JOB}, [None], ["a"], [{"metadata": {}}]])
def test_an_odd_list_is_an_error(items, client, server):
    server.answers.append(answer({"items": items, "metadata": {"resourceVersion": "1"}}))

    with pytest.raises(ApiError, match="unexpected answer instead of a"):
        client.list("Job", labelSelector="a=b")


def test_half_of_a_surrogate_pair_can_be_printed(client, server):
    server.answers.append(answer(b'{"metadata": {"name": "a\\ud800", "uid": "u"}}'))

    assert client.get("Job", "a")["metadata"]["name"] == "a?"


@pytest.mark.parametrize("broken", [hang_up, answer(b"no JSON")], ids=["hang up", "no JSON"])
def test_a_broken_answer_is_tried_again(client, server, broken):
    server.answers.append(broken)

    with pytest.raises(ApiError):
        client.get("Job", "a")


@pytest.fixture(scope="session")
def certificates(tmp_path_factory):
    """A folder with a CA, a certificate signed by it, and a foreign CA with the same name.

    As on EKS, the CAs have basic constraints only, and there are no key identifiers.
    """
    folder = tmp_path_factory.mktemp("certificates")
    (folder / "settings").write_text("""
[req]
distinguished_name = name
[name]
[ca]
basicConstraints = critical,CA:TRUE
subjectKeyIdentifier = none
authorityKeyIdentifier = none
[leaf]
subjectAltName = IP:127.0.0.1
subjectKeyIdentifier = none
authorityKeyIdentifier = none
""")
    key = "openssl req -config settings -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes"
    root = f"{key} -x509 -subj /CN=kubernetes -days 2 -extensions ca"
    sign = "openssl x509 -req -CA ca.crt -CAkey ca.key -CAcreateserial -days 2 -extfile settings"
    for command in (
        f"{root} -keyout ca.key -out ca.crt",
        f"{root} -keyout foreign.key -out foreign.crt",
        f"{key} -subj /CN=kube-apiserver -keyout leaf.key -out leaf.csr",
        f"{sign} -in leaf.csr -extensions leaf -out leaf.crt",
    ):
        subprocess.run(command.split(), check=True, capture_output=True, cwd=folder)
    return folder


@pytest.fixture
def port(server, certificates, account, monkeypatch):
    """The port of an API server with TLS. The service account contains its CA."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates / "leaf.crt", certificates / "leaf.key")
    server.socket = context.wrap_socket(server.socket, server_side=True)
    shutil.copy(certificates / "ca.crt", account / "ca.crt")
    monkeypatch.setattr(api, "ACCOUNT", account)
    return server.server_port


REQUESTS = f"""
{archives.LOADER}
from mlgen.runtime import api
certificates, port, account = sys.argv[1:]
api.ACCOUNT = pathlib.Path(account)
for host, ca in ("127.0.0.1", "ca.crt"), ("localhost", "ca.crt"), ("127.0.0.1", "foreign.crt"):
    (api.ACCOUNT / "ca.crt").write_bytes(pathlib.Path(certificates, ca).read_bytes())
    try:
        print(api.in_cluster(host, port).get("Job", "a")["metadata"]["name"])
    except api.ApiError as problem:
        print("rejected" if "certificate verify failed" in str(problem) else problem)
"""


@pytest.mark.pythons
@pytest.mark.parametrize("version", ["3.9", "3.10", "3.11", "3.12", "3.13"])
def test_every_python_accepts_certificates_without_key_identifiers(  # noqa: PLR0913, PLR0917
    version, server, port, account, certificates, tmp_path
):
    program = interpreter(version)
    if not program:
        missing(f"there is no Python {version} here")
    server.answers.append(answer(JOB))
    from mlgen.objects.supervisor import archive  # not in the program: see archived.py

    (tmp_path / "supervisor.pyz").write_bytes(archive(archives.plan()))
    command = [program, "-c", REQUESTS, "supervisor.pyz", certificates, str(port), account]

    run = subprocess.run(command, check=False, cwd=tmp_path, capture_output=True, text=True)

    assert ("a\nrejected\nrejected\n", "") == (run.stdout, run.stderr)


@pytest.mark.slow
def test_certificates_without_key_identifiers_are_accepted(server, port, monkeypatch):
    server.answers.append(answer(JOB))
    default = ssl.create_default_context

    def strict(**options):
        """Return the default context of Python 3.13, which rejects them."""
        context = default(**options)
        context.verify_flags |= ssl.VERIFY_X509_STRICT
        return context

    monkeypatch.setattr(ssl, "create_default_context", strict)
    context = strict(cafile=str(api.ACCOUNT / "ca.crt"))
    with (
        pytest.raises(ssl.SSLCertVerificationError),
        socket.create_connection(("127.0.0.1", port), timeout=5) as connection,
    ):
        context.wrap_socket(connection, server_hostname="127.0.0.1")

    assert "a" == api.in_cluster("127.0.0.1", str(port)).get("Job", "a")["metadata"]["name"]


@pytest.mark.parametrize(
    ("host", "ca", "reason"),
    [
        ("localhost", "ca.crt", "certificate verify failed: Hostname mismatch"),
        ("127.0.0.1", "foreign.crt", "certificate verify failed: (self|unable|certificate sig)"),
        ("127.0.0.1", "leaf.key", "NO_CERTIFICATE_OR_CRL_FOUND"),
    ],
)
def test_a_server_that_is_not_trusted_is_named_with_the_reason(  # noqa: PLR0913, PLR0917
    host, ca, reason, port, account, certificates
):
    shutil.copy(certificates / ca, account / "ca.crt")
    client = api.in_cluster(host, str(port))

    with pytest.raises(ApiError, match=reason) as error:
        client.get("Job", "a")

    start = f"GET /apis/batch/v1/namespaces/team/jobs/a at {host} port {port}: SSL"
    assert str(error.value).startswith(start)
    assert "\n" not in str(error.value)
    assert (0, False) == (error.value.code, client.answered)


def test_a_server_whose_name_does_not_resolve_is_named(account, certificates, monkeypatch):
    def fail(*_, **__):
        raise socket.gaierror(-2, "Name or service not known")

    shutil.copy(certificates / "ca.crt", account / "ca.crt")
    monkeypatch.setattr(api, "ACCOUNT", account)
    monkeypatch.setattr(socket, "getaddrinfo", fail)

    with pytest.raises(ApiError, match=r"at api port 443: gaierror: .* not known"):
        api.in_cluster("api", "443").get("Job", "a")


def test_nobody_listens(account):
    def connect(timeout):
        return http.client.HTTPConnection("127.0.0.1", 1, timeout=timeout)

    with pytest.raises(ApiError, match=r"^GET /.*/a at here: ConnectionRefusedError: .* refused$"):
        Api(connect, "here", account).get("Job", "a")


def test_an_error_is_one_line():
    assert "422: a b" == str(ApiError("a\n  b\n", 422))


@pytest.mark.parametrize("date", ["", "no date", "Mon, 99 Jan 99999999 00:00:00 GMT"])
def test_an_answer_without_a_date_keeps_the_clock(date, client, server):
    before = client.clock.now()
    client.clock.resume(0.0, 0.0)
    server.date = lambda _: date
    server.answers += [answer(JOB)] * 3
    for _ in range(3):
        client.get("Job", "a")

    assert client.answered
    assert 0 <= client.clock.now() - before < 60


def test_the_clock_is_that_of_the_server_if_nothing_is_recorded(client, server):
    client.clock.resume(0.0, 0.0)
    server.date = lambda _: formatdate(7200, usegmt=True)
    server.answers += [answer({}, 403)] * 3
    for _ in range(3):
        with pytest.raises(ApiError):
            client.get("Job", "a")

    assert 7200 <= client.clock.now() < 7260


def changes(client, kind, **selectors):
    """Yield the types of a watch's events."""
    return (event.change for event in client.watch(kind, **selectors))


def test_a_watch_tells_all_objects_and_then_each_change(client, server):
    first = {"items": [JOB], "metadata": {"continue": "next", "resourceVersion": "10"}}
    last = {"items": [JOB], "metadata": {"resourceVersion": "10"}}
    server.answers += [answer(first), answer(last), chunks(event("ADDED", "11"))]
    watch = client.watch("Pod")

    found = [next(watch), next(watch)]

    assert [("LISTED", 2, "10"), ("ADDED", 1, "11")] == [
        (each.change, len(each.objects), each.version) for each in found
    ]
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


def test_a_broken_watch_backs_off_and_lists_again(client, server, slept):
    server.answers += [
        hang_up,
        listed("10"),
        chunks(event("ADDED", "11"), end=b"ff\r\n{"),
        answer({}, 429, Retry_After="9"),
        hang_up,
        listed("12"),
        chunks({"type": "ERROR", "object": {}}),
        listed("12"),
        chunks(event("MODIFIED", "13")),
    ]
    watch = changes(client, "Job")

    found = [next(watch) for _ in range(5)]

    assert ["LISTED", "ADDED", "LISTED", "LISTED", "MODIFIED"] == found
    assert [0.5, 0.5, 9.0, 2.0, 4.0] == slept
    assert "resourceVersion=12" in server.requests[-1][1]


EVENTS = {
    "without a version": {"type": "MODIFIED", "object": {"metadata": {"name": "a", "uid": "u"}}},
    "whose object is a text": {"type": "MODIFIED", "object": "a"},
    "whose object is null": {"type": "DELETED", "object": None},
    "that is a list": [],
    "that is a text": "a",
    "of an unknown type": event("CHANGED", "11"),
    "of a type that is a number": {**event("ADDED", "11"), "type": 7},
    "without a name": {"type": "ADDED", "object": {"metadata": {"resourceVersion": "11"}}},
    "that is an error without a Status": {"type": "ERROR", "object": "gone"},
    "with a code that is a text": {"type": "ERROR", "object": {"code": "410"}},
    "of an older version, after etcd was restored": event("MODIFIED", "9"),
    "of an older bookmark": event("BOOKMARK", "9"),
}


@pytest.mark.parametrize("odd", EVENTS.values(), ids=EVENTS)
def test_a_watch_survives_an_event(odd, client, server):
    server.answers += [listed("10"), chunks(odd), listed("12"), chunks(event("ADDED", "13"))]
    watch = changes(client, "Job")

    assert ["LISTED", "LISTED", "ADDED"] == [next(watch) for _ in range(3)]


def test_only_the_first_of_the_failures_of_a_watch_in_a_row_is_logged(client, server, logged):
    no = answer({"message": "pods is forbidden"}, 403)
    server.answers += [no, no, listed("10"), chunks(GONE), no, listed("20")]
    server.answers += [chunks(event("ADDED", "21")), no, no, listed("22")]
    watch = changes(client, "Pod")

    assert ["LISTED", "LISTED", "ADDED"] == [next(watch) for _ in range(3)]
    line = "cannot watch Pods: 403: GET /api/v1/namespaces/team/pods: pods is forbidden"
    assert [line] == logged
    assert "LISTED" == next(watch)
    assert [line, line] == logged


def test_after_a_watch_without_an_event_or_a_bookmark_all_is_listed_again(client, server, slept):
    server.answers += [listed("10"), chunks(), listed("10"), chunks(event("ADDED", "11"))]
    watch = changes(client, "Job")

    assert ["LISTED", "LISTED", "ADDED"] == [next(watch) for _ in range(3)]
    assert [0.5] == slept  # limits the load on a server that ends watches at once

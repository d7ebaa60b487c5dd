"""A client of the language server protocol, for tests: https://microsoft.github.io/language-server-protocol."""

import json
import subprocess
from itertools import count


class Editor:
    """An editor of YAML files. Its language server runs in their folder."""

    def __init__(self, server, folder):
        self.process = subprocess.Popen(
            [server, "--stdio"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=folder,
        )
        self.folder, self.uri, self.numbers = folder, "", count(1)
        markdown = {"contentFormat": ["markdown"], "documentationFormat": ["markdown"]}
        completion = {"completionItem": {"snippetSupport": True, **markdown}}
        self.request(
            "initialize",
            processId=None,
            rootUri=f"file://{folder}",
            capabilities={"textDocument": {"completion": completion, "hover": markdown}},
        )
        self.notify("initialized")

    def open(self, text):
        """Open a new file, and return the line and the message of each of its problems."""
        self.uri = f"file://{self.folder}/job-{next(self.numbers)}.yaml"
        document = {"uri": self.uri, "languageId": "yaml", "version": 1, "text": text}
        self.notify("textDocument/didOpen", textDocument=document)
        while True:
            message = self.read()
            parameters = message.get("params") or {}
            is_report = message.get("method") == "textDocument/publishDiagnostics"
            if is_report and parameters["uri"] == self.uri:
                problems = parameters["diagnostics"]
                return sorted((p["range"]["start"]["line"] + 1, p["message"]) for p in problems)

    def completions(self, text):
        """Return the completions at `|` in a text, by label."""
        before, _, after = text.partition("|")
        self.open(before + after)
        answer = self.request("textDocument/completion", **self.position(before))
        return {item["label"]: item for item in answer["items"]}

    def hover(self, text):
        """Return the hover text at `|` in a text."""
        before, _, after = text.partition("|")
        self.open(before + after)
        answer = self.request("textDocument/hover", **self.position(before))
        return answer["contents"]["value"]

    def position(self, before):
        lines = before.split("\n")
        position = {"line": len(lines) - 1, "character": len(lines[-1])}
        return {"textDocument": {"uri": self.uri}, "position": position}

    def request(self, method, **params):
        """Send a request, and return the result. Answers the server's requests meanwhile."""
        number = next(self.numbers)
        self.send(id=number, method=method, params=params)
        while True:
            message = self.read()
            if message.get("id") == number and "method" not in message:
                return message["result"]

    def notify(self, method, **params):
        self.send(method=method, params=params)

    def send(self, **message):
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        self.process.stdin.write(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
        self.process.stdin.flush()

    def read(self):
        """Return the next message. Answers requests of the server with an empty result."""
        length = 0
        while line := self.process.stdout.readline().strip():
            if line.lower().startswith(b"content-length:"):
                length = int(line.split(b":")[1])
        message = json.loads(self.process.stdout.read(length))
        if "id" in message and "method" in message:
            items = message["params"].get("items", []) if message.get("params") else []
            self.send(id=message["id"], result=[{} for _ in items] if items else None)
        return message

    def quit(self):
        self.process.kill()
        self.process.wait()

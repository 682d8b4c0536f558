"""What GitHub does for the action, on this machine: the API for comments, and the steps of a composite action."""

import json
import os
import re
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import yaml

# The numbers of `github-actions[bot]`, which owns the token of a job, and of another user.
TOKEN_OWNER = {"id": 41898282}
STRANGER = {"id": 1}


class FakeApi(ThreadingHTTPServer):
    """Keeps the comments of pull request 7, and answers with `refusal` instead if that is set."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.comments = []
        self.requests = []
        self.refusal = None
        self.tells_owner = True
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def url(self):
        return f"http://127.0.0.1:{self.server_address[1]}"

    def close(self):
        self.shutdown()
        self.server_close()


class Handler(BaseHTTPRequestHandler):
    def answer(self, status, content):
        body = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def handle_request(self):
        api = self.server
        url = urlsplit(self.path)
        content = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))) or "null")
        api.requests.append((self.command, url.path))
        if api.refusal or self.headers["Authorization"] != "Bearer secret":
            return self.answer(api.refusal or 401, {"message": "refused"})
        if self.command == "POST" and url.path == "/graphql":
            viewer = {"databaseId": TOKEN_OWNER["id"]} if api.tells_owner else None
            return self.answer(200, {"data": {"viewer": viewer}})
        if self.command == "GET" and url.path == "/repos/o/r/issues/7/comments":
            query = parse_qs(url.query)
            size, page = int(query["per_page"][0]), int(query["page"][0])
            return self.answer(200, api.comments[(page - 1) * size : page * size])
        if self.command == "POST" and url.path == "/repos/o/r/issues/7/comments":
            if len(content["body"]) > 65_536:
                return self.answer(422, {"message": "body is too long"})
            comment = {"id": len(api.comments) + 1, "html_url": "https://comment", "user": TOKEN_OWNER, **content}
            api.comments.append(comment)
            return self.answer(201, comment)
        if self.command == "PATCH" and (found := re.fullmatch(r"/repos/o/r/issues/comments/(\d+)", url.path)):
            comment = next(c for c in api.comments if c["id"] == int(found[1]))
            comment.update(content)
            return self.answer(200, comment)
        return self.answer(404, {"message": "not found"})

    do_GET = do_POST = do_PATCH = handle_request

    def log_message(self, *args):
        pass


class Runner:
    """Runs the shell steps of a composite action, and records what it would pass to other actions."""

    def __init__(self, action, environment):
        self.action = yaml.safe_load(action.read_text())
        self.environment = os.environ | environment | {"GITHUB_ACTION_PATH": str(action.parent)}
        self.outputs = {}
        self.used = {}
        self.log = ""

    def run(self, inputs):
        """The exit code of the action."""
        unknown = set(inputs) - set(self.action["inputs"])
        assert not unknown, unknown
        defaults = {name: self.text(entry.get("default", "")) for name, entry in self.action["inputs"].items()}
        self.inputs = defaults | inputs
        for step in self.action["runs"]["steps"]:
            if self.value(step.get("if", "true")) in ("", False):
                continue
            values = {k: self.text(v) for k, v in {**step.get("env", {}), **step.get("with", {})}.items()}
            if "uses" in step:
                self.used[step["uses"].split("@")[0]] = values
            elif status := self.shell(step, values):
                return status
        return 0

    def shell(self, step, values):
        assert step["shell"] == "bash" and "${{" not in step["run"], "inputs reach the shell as variables only"
        file = Path(self.environment["RUNNER_TEMP"]) / "output"
        file.write_text("")
        command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]]
        environment = self.environment | values | {"GITHUB_OUTPUT": str(file)}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        self.log += done.stdout + done.stderr
        lines = file.read_text().splitlines()
        self.outputs[step.get("id")] = dict(line.split("=", 1) for line in lines)
        return done.returncode

    def text(self, template):
        return re.sub(r"\$\{\{ (.+?) \}\}", lambda found: str(self.value(found[1])), template)

    def value(self, expression):
        """Evaluates the expressions that the action uses: paths, literals, format(), ==, !=, && and ||."""
        expression = expression.strip()
        if " && " in expression:
            first, second = expression.split(" && ", 1)
            return self.value(first) and self.value(second)
        if " || " in expression:
            first, second = expression.split(" || ", 1)
            return self.value(first) or self.value(second)
        if found := re.fullmatch(r"(.+) (==|!=) (.+)", expression):
            return (self.value(found[1]) == self.value(found[3])) == (found[2] == "==")
        if found := re.fullmatch(r"format\('(.+)', (.+), (.+)\)", expression):
            return found[1].format(self.value(found[2]), self.value(found[3]))
        if found := re.fullmatch(r"'(.*)'", expression):
            return found[1]
        if found := re.fullmatch(r"inputs\.([\w-]+)", expression):
            return self.inputs[found[1]]
        if found := re.fullmatch(r"steps\.([\w-]+)\.outputs\.([\w-]+)", expression):
            return self.outputs.get(found[1], {}).get(found[2], "")
        if expression == "github.token":
            return "secret"
        if expression == "true":
            return True
        raise ValueError(f"unexpected expression: {expression}")

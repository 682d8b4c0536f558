"""Opens a page of the report in a browser and asks it questions.

    python drive.py PAGE [--width N] [--height N] [--dark] [--whole] [--paper] [--screenshot FILE] [--axe FILE] [--js JS ...]

PAGE is a file, or an address on this machine. Evaluates each JavaScript expression in the page, in order, and prints one
JSON document: the values, everything that the page reported as an error, all requests other than the page itself, and the
violations that axe-core (the file of --axe) finds. --whole makes the window as high as the page, so that everything is
drawn. Needs the Debian package `chromium`; the browser is driven over its debugging pipe, as the Perfetto tests do.
"""

import argparse
import base64
import json
import pathlib
import sys
import tempfile
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "perfetto"))
import query

PATIENCE_S = 120
READY = "document.readyState === 'complete' && document.documentElement.dataset.ready === 'yes'"
# What links open is recorded, and nothing is opened.
RECORD = """
window.opened = [];
window.open = (url) => {
    const other = { sent: [], postMessage(data, origin) {
        if (data === "PING") {
            const event = new MessageEvent("message", { data: "PONG" });
            Object.defineProperty(event, "source", { value: other });
            window.dispatchEvent(event);
            return;
        }
        const bytes = new Uint8Array(data.perfetto.buffer);
        other.sent.push({ origin, title: data.perfetto.title, bytes: bytes.length, start: [bytes[0], bytes[1]] });
        other.buffer = data.perfetto.buffer;
    } };
    window.opened.push({ url, sent: other.sent, other });
    return other;
};
"""


class Browser(query.Browser):
    """A headless browser that keeps what its page reports."""

    def __init__(self, profile):
        self.events = []
        super().__init__(profile)

    def message(self):
        message = super().message()
        if "method" in message:
            self.events.append(message)
        return message

    def errors(self):
        """What the page reported as an error or a warning."""
        found = []
        for event in self.events:
            params = event["params"]
            if event["method"] == "Runtime.exceptionThrown":
                details = params["exceptionDetails"]
                found.append(details.get("exception", {}).get("description", details["text"]))
            elif event["method"] == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning"):
                found.append(" ".join(str(a.get("value", a.get("description"))) for a in params["args"]))
            elif event["method"] == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
                found.append(params["entry"]["text"])
        return found

    def requests(self, page):
        sent = [e["params"]["request"]["url"] for e in self.events if e["method"] == "Network.requestWillBeSent"]
        return [url for url in sent if url.split("#")[0] != page.split("#")[0] and not url.startswith("data:")]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("page")
    parser.add_argument("--width", type=int, default=1280)
    parser.add_argument("--height", type=int, default=900)
    parser.add_argument("--dark", action="store_true")
    parser.add_argument("--whole", action="store_true")
    parser.add_argument("--screenshot")
    parser.add_argument("--paper", action="store_true")
    parser.add_argument("--axe")
    parser.add_argument("--js", action="append", default=[])
    args = parser.parse_args()
    is_address = args.page.startswith("http://")
    page = args.page if is_address else pathlib.Path(args.page).resolve().as_uri()
    result = {"values": []}
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        browser = Browser(profile)
        watchdog = threading.Timer(PATIENCE_S, browser.process.kill)
        watchdog.daemon = True
        watchdog.start()

        def resize(height):
            browser.call(
                "Emulation.setDeviceMetricsOverride",
                width=args.width, height=height, deviceScaleFactor=1, mobile=False,
            )

        try:
            for domain in ("Page", "Runtime", "Network", "Log"):
                browser.call(f"{domain}.enable")
            resize(args.height)
            scheme = {"name": "prefers-color-scheme", "value": "dark" if args.dark else "light"}
            browser.call("Emulation.setEmulatedMedia", features=[scheme])
            browser.call("Page.addScriptToEvaluateOnNewDocument", source=RECORD)
            started = time.monotonic()
            browser.call("Page.navigate", url=page)
            while not browser.evaluate(READY):
                time.sleep(0.02)
            result["ready_s"] = time.monotonic() - started
            if args.paper:
                browser.evaluate("window.dispatchEvent(new Event('beforeprint'))")
                browser.call("Emulation.setEmulatedMedia", media="print", features=[scheme])
            if args.whole:
                for _ in range(2):
                    resize(browser.evaluate("Math.ceil(document.getElementById('main').getBoundingClientRect().bottom + window.scrollY)"))
                    time.sleep(0.4)
            for js in args.js:
                result["values"].append(browser.evaluate(js))
                time.sleep(0.1)
            if args.axe:
                browser.evaluate(pathlib.Path(args.axe).read_text() + "; true")
                found = browser.evaluate(
                    "axe.run().then(r => r.violations.map(v => ({id: v.id, help: v.help,"
                    " nodes: v.nodes.slice(0, 5).map(n => n.html.slice(0, 200) + ' ' + n.failureSummary)})))"
                )
                result["violations"] = found
            if args.screenshot:
                shot = browser.call("Page.captureScreenshot", format="png")
                pathlib.Path(args.screenshot).write_bytes(base64.b64decode(shot["data"]))
            browser.evaluate("new Promise((done) => setTimeout(done, 50))")
            result["errors"] = browser.errors()
            result["requests"] = browser.requests(page)
        finally:
            browser.close()
    json.dump(result, sys.stdout)


if __name__ == "__main__":
    main()

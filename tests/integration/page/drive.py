"""Opens pages of the report in a browser and asks them questions.

    python drive.py PAGE [--screenshot FILE] [--js JS ...]
    python drive.py --serve

PAGE is a file, or an address on this machine. Prints one JSON document: the values of the JavaScript expressions, in order,
everything that the page reported as an error, all requests other than the page itself, and the violations that axe-core
finds. With --serve it reads requests from standard input, one JSON document a line (see `answer`), and prints a line for
each; one browser opens all of them. Needs the Debian package `chromium`; the browser is driven over its debugging pipe, as
the Perfetto tests do.
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
FIT = "Math.ceil(document.getElementById('main').getBoundingClientRect().bottom + window.scrollY)"
# What depends on colors and on the width; the rest of a page is the same in each view.
LOOKS = "{ runOnly: ['color-contrast', 'link-in-text-block', 'scrollable-region-focusable', 'target-size'] }"
VIOLATIONS = """axe.run(%s).then(r => r.violations.map(v => ({id: v.id, help: v.help,
    nodes: v.nodes.slice(0, 5).map(n => n.html.slice(0, 200) + ' ' + n.failureSummary)})))"""
# Where the page is once it has come to rest: the top of what it was led to, whether the page ends there, and the marked entry.
# Frames are counted, not milliseconds: a busy machine draws late.
LANDED = """(async () => {
    let [last, same] = [-1, 0];
    for (let n = 0; n < 600 && same < 8; n++) {
        await new Promise(requestAnimationFrame);
        same = scrollY === last ? same + 1 : 0;
        last = scrollY;
    }
    const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    const current = [...document.querySelectorAll("header.top a[aria-current]")].map((a) => a.getAttribute("href"));
    const isEnd = innerHeight + scrollY >= document.documentElement.scrollHeight - 2;
    return { id: target.id, top: target.getBoundingClientRect().top, is_end: isEnd, current };
})()"""
# What the page draws after its size has changed.
SETTLED = "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done, 100))))"
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

    def open(self, page, fragment=""):
        """Opens a page, a file or an address, and returns the seconds until it can be used."""
        self.call("Page.navigate", url="about:blank")
        self.events.clear()
        self.address = (page if page.startswith("http://") else pathlib.Path(page).resolve().as_uri()) + fragment
        started = time.monotonic()
        self.call("Page.navigate", url=self.address)
        while not self.evaluate(READY):
            time.sleep(0.02)
        return time.monotonic() - started

    def show(self, width=1280, height=900, dark=False, whole=False, paper=False, still=False):
        """Sets size, colors and motion; `whole` makes the window as high as the page, so that everything is drawn."""
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        motion = {"name": "prefers-reduced-motion", "value": "reduce" if still else "no-preference"}
        self.call("Emulation.setEmulatedMedia", media="print" if paper else "", features=[scheme, motion])
        self.resize(width, height)
        if paper:
            self.evaluate("window.dispatchEvent(new Event('beforeprint'))")
        for _ in range(2 if whole else 0):
            self.resize(width, self.evaluate(FIT))
            self.evaluate(SETTLED)

    def resize(self, width, height):
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False
        )

    def violations(self, axe):
        if self.evaluate("Boolean(window.axe)"):
            return self.evaluate(VIOLATIONS % LOOKS)
        self.evaluate(pathlib.Path(axe).read_text() + "; true")
        return self.evaluate(VIOLATIONS % "")

    def landings(self, page):
        """Where each entry of the contents, clicked, and each finding, linked to, lands in a fresh page."""
        links = self.evaluate("[...document.querySelectorAll('header.top nav a')].map((a) => a.getAttribute('href'))")
        ids = self.evaluate("[...document.querySelectorAll('article.finding')].map((a) => a.id)")
        for link in links:
            self.open(page)
            self.evaluate(f"document.querySelector('header.top nav a[href=\"{link}\"]').click()")
            yield self.evaluate(LANDED)
        for id in ids:
            self.open(page, f"#{id}")
            yield self.evaluate(LANDED)

    def screenshot(self, **clip):
        """A picture as PNG, of all or of a part: x, y, width, height."""
        part = {"clip": clip | {"scale": 1}} if clip else {}
        return base64.b64decode(self.call("Page.captureScreenshot", format="png", **part)["data"])


def started(profile):
    browser = Browser(profile)
    for domain in ("Page", "Runtime", "Network", "Log"):
        browser.call(f"{domain}.enable")
    browser.call("Page.addScriptToEvaluateOnNewDocument", source=RECORD)
    return browser


def answer(browser, page, views=({},), js=(), axe=None, screenshot=None, landings=False):
    """What a page says in each view (see `Browser.show`), one after the other."""
    # Landings open the page many times.
    watchdog = threading.Timer(PATIENCE_S * (4 if landings else 1), browser.process.kill)
    watchdog.daemon = True
    watchdog.start()
    result = {"values": [], "violations": []}
    browser.show(**views[0] | {"whole": False, "paper": False})
    result["ready_s"] = browser.open(page)
    for view in views:
        browser.show(**view)
        for expression in js:
            result["values"].append(browser.evaluate(expression))
        if axe:
            result["violations"] += browser.violations(axe)
    if landings:
        result["landings"] = list(browser.landings(page))
    if screenshot:
        pathlib.Path(screenshot).write_bytes(browser.screenshot())
    browser.evaluate(SETTLED)
    watchdog.cancel()
    return result | {"errors": browser.errors(), "requests": browser.requests(browser.address)}


def serve(profile):
    browser = None
    for line in sys.stdin:
        try:
            browser = browser or started(profile)
            result = answer(browser, **json.loads(line))
        except SystemExit as failure:
            browser.close()
            browser = None
            result = {"failure": str(failure)}
        print(json.dumps(result), flush=True)
    if browser:
        browser.close()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("page", nargs="?")
    parser.add_argument("--serve", action="store_true")
    parser.add_argument("--width", type=int, default=1280)
    parser.add_argument("--height", type=int, default=900)
    parser.add_argument("--dark", action="store_true")
    parser.add_argument("--whole", action="store_true")
    parser.add_argument("--paper", action="store_true")
    parser.add_argument("--screenshot")
    parser.add_argument("--axe")
    parser.add_argument("--js", action="append", default=[])
    args = vars(parser.parse_args())
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        if args.pop("serve"):
            return serve(profile)
        view = {name: args.pop(name) for name in ("width", "height", "dark", "whole", "paper")}
        browser = started(profile)
        try:
            json.dump(answer(browser, views=[view], **args), sys.stdout)
        finally:
            browser.close()


if __name__ == "__main__":
    main()

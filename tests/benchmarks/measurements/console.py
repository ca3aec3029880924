"""The console on a long past: how long its pages take while records go on arriving, and memory."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from urllib.parse import urlencode, urlsplit

from playwright.sync_api import Browser, ViewportSize, sync_playwright

from infra.browser import chromium
from infra.server_process import ServerProcess
from tests.benchmarks import long_past, usage
from tests.benchmarks.figures import Bar, Figure
from tests.benchmarks.rig import START_LIMIT_S, Field, Rig, end
from tests.benchmarks.size import Size

NAME = "console"
PAGE_MS_MAX = 300.0
MEMORY_MIB_MAX = 300.0
ARRIVING_PER_S = 200
READ_LIMIT_S = 600.0
LOOK_EVERY_S = 0.2
ROUNDS = 20
PAINT_MS_MAX = 500.0
PAINTS = 9
PAINTED = ("overview", "dead letters in groups", "a list of letters")
PHONE = ViewportSize(width=390, height=844)
PHONE_SLOWER = 4  # than this machine
# Not by wait_for_function, which the policy of our pages forbids to evaluate a text.
_FIRST_PAINT_MS = """new Promise(paint => new PerformanceObserver(all => {
    for (const one of all.getEntriesByName("first-contentful-paint")) paint(one.startTime);
}).observe({type: "paint", buffered: true}))"""
TOKEN = "a-token-of-the-benchmark"
PAGES = {
    "overview": "/",
    "overview, 24 hours": "/?range=24h",
    "profiles, 24 hours": "/profiles?range=24h",
    "money, 24 hours": "/money?range=24h",
    "lanes": "/lanes",
    "dead letters in groups": "/letters",
    "in groups by label and model": "/letters?by=model&by=label%3Atenant&status=any",
    "in groups by a label that each has for itself": "/letters?by=label%3Aorder&status=any",
    "in groups of the last hour": "/letters?since=1h",
    "in groups with a text": "/letters?q=past-77",
    "a list of letters": "/letters/list?cause=deadline_passed&page=7",
    "a list by cost": "/letters/list?sort=spent",
    "a list with a text": "/letters/list?q=past-77&status=any",
    "one letter": "/letters/one?id=past-50000.dead-letter",
    "a workflow": "/workflow?id=past-w2000",
    "the tail": "/tail",
    "the tail with a text": "/tail?q=past",
    "runs": "/runs",
    "topics": "/topics",
    "contracts": "/contracts",
    "actions": "/actions",
    "audit": "/audit",
}


class Visitor:
    """One browser that is logged in."""

    def __init__(self, url: str) -> None:
        self._parts = urlsplit(url)
        self.url = f"http://{self._parts.netloc}"
        self._connection = HTTPConnection(self._parts.hostname or "", self._parts.port)
        form = {"token": TOKEN, "name": "bench"}
        headers = {
            "Content-Type": "application/x-www-form-urlencoded",
            "Origin": f"http://{self._parts.netloc}",
        }
        self._connection.request("POST", "/login", urlencode(form), headers)
        response = self._connection.getresponse()
        response.read()
        self.cookie = (response.getheader("Set-Cookie") or "").partition(";")[0]

    def visit(self, path: str) -> tuple[float, str]:
        """How long the whole page took, in milliseconds, and its text."""
        began = time.monotonic()
        self._connection.request("GET", path, headers={"Cookie": self.cookie})
        response = self._connection.getresponse()
        text = response.read().decode()
        took_ms = (time.monotonic() - began) * 1000
        if response.status != 200:
            raise RuntimeError(f"{path}: {response.status}")
        return took_ms, text


def measure(rig: Rig, size: Size) -> Iterator[Figure]:
    """The slowest answer of each page."""
    field, case = rig.field(), _case(size)
    rig.say(f"writing {case}")
    long_past.write(field.bus, size.attempts)
    process = start_console(rig, field)
    visitor = Visitor(process.log.read_text().partition("is at ")[2].split()[0])
    rig.say("reading")
    began, slowest_ms = time.monotonic(), 0.0
    while "topics are being read" in (answer := visitor.visit("/"))[1]:
        slowest_ms = max(slowest_ms, answer[0])
        if time.monotonic() - began > READ_LIMIT_S:
            raise RuntimeError("the console did not read the topics to their end")
        time.sleep(LOOK_EVERY_S)
    took_s = time.monotonic() - began
    yield Figure(NAME, case, "product", "read from the start", took_s, "s")
    bar = Bar("<=", PAGE_MS_MAX)
    yield Figure(NAME, case, "product", "slowest overview while reading", slowest_ms, "ms", bar)
    with long_past.arriving(field.bus, size.attempts, ARRIVING_PER_S):
        for name, path in PAGES.items():
            times = sorted(visitor.visit(path)[0] for _ in range(ROUNDS))
            rig.say(f"{name}: {times[ROUNDS // 2]:.0f} ms, at most {times[-1]:.0f} ms")
            yield Figure(
                NAME, case, "product", f"slowest of {ROUNDS}: {name}", times[-1], "ms", bar
            )
        yield from _first_paints(rig, visitor, case)
    yield from _first_paints(rig, visitor, _case(size, arriving=0))
    memory = usage.of_session(process.pid).peak_mib
    yield Figure(NAME, case, "product", "peak memory", memory, "MiB", Bar("<=", MEMORY_MIB_MAX))


def _first_paints(rig: Rig, visitor: Visitor, case: str) -> Iterator[Figure]:
    """In a browser that runs already, and beside them a page of one word: the browser's own part.

    What that page takes, no page of the console can save. They take turns, so that other work on
    the machine delays all of them alike.
    """
    with sync_playwright() as playwright, _one_word() as port:
        idle_url, empty_url = (f"http://{host}:{port}/" for host in ("localhost", "127.0.0.1"))
        browser = playwright.chromium.launch(executable_path=chromium(), args=["--no-sandbox"])
        for _ in range(PAINTS):
            _paint_ms(browser, visitor, empty_url, idle_url)  # it starts, and loads its fonts
        addresses = {"a page of one word": empty_url}
        addresses |= {name: visitor.url + PAGES[name] for name in PAINTED}
        times: dict[str, list[float]] = {name: [] for name in addresses}
        for _ in range(PAINTS):
            for name, url in addresses.items():
                times[name].append(_paint_ms(browser, visitor, url, idle_url))
        browser.close()
    for name, took_ms in times.items():
        median_ms, slowest_ms = sorted(took_ms)[PAINTS // 2], max(took_ms)
        rig.say(f"first paint on a phone, {name}: {median_ms:.0f} ms, at most {slowest_ms:.0f} ms")
        who, bar = ("product", Bar("<=", PAINT_MS_MAX)) if name in PAINTED else ("browser", None)
        what = f"first paint on a phone, {{}} of {PAINTS}: {name}"
        yield Figure(NAME, case, who, what.format("median"), median_ms, "ms")
        yield Figure(NAME, case, who, what.format("slowest"), slowest_ms, "ms", bar)


def _paint_ms(browser: Browser, visitor: Visitor, url: str, idle_url: str) -> float:
    """On a phone, at a quarter of this machine's speed, nothing cached; from another site."""
    name, _, value = visitor.cookie.partition("=")
    context = browser.new_context(viewport=PHONE, device_scale_factor=3, is_mobile=True)
    context.add_cookies([{"name": name, "value": value, "url": visitor.url}])
    page = context.new_page()
    context.new_cdp_session(page).send("Emulation.setCPUThrottlingRate", {"rate": PHONE_SLOWER})
    page.goto(idle_url, wait_until="load")  # the window is open before the address is entered
    page.evaluate(_FIRST_PAINT_MS)
    page.goto(url, wait_until="load")
    took_ms = float(page.evaluate(_FIRST_PAINT_MS))
    context.close()
    return took_ms


@contextmanager
def _one_word() -> Iterator[int]:
    """A server of a page of one word; its port."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _OneWord)
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server.server_port
    server.shutdown()
    thread.join()


class _OneWord(BaseHTTPRequestHandler):
    """Answers everything with the same page."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.end_headers()
        self.wfile.write(b'<!doctype html><html lang="en"><title>One</title><p>One</p></html>')

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as its class has it
        """Nothing: the figures are the log."""


def _case(size: Size, arriving: int = ARRIVING_PER_S) -> str:
    past = f"{size.dead_letters:,} letters, {size.attempts:,} attempts"
    return f"{past}, {arriving} records/s arrive"


def start_console(rig: Rig, field: Field) -> ServerProcess:
    """One that serves; it still has to read the topics."""
    config = field.bus.settings("")
    command = [sys.executable, "-m", "services.cli", "console", "--config", str(config)]
    command += ["--port", "0", "--token-env", "CONSOLE_TOKEN"]
    log = rig.folder / f"{field.bus.prefix}-console.log"
    environment = {**rig.environment, "CONSOLE_TOKEN": TOKEN, "COLUMNS": "200"}
    process = ServerProcess.start(command, log, "", environment)
    rig.stack.callback(end, process)
    process.wait_until(lambda: "is at " in log.read_text(errors="replace"), START_LIMIT_S)
    return process

"""The programs in examples/, each as its page says, on a real Kafka with a worker that plays."""

import ast
import asyncio
import inspect
import json
import os
import subprocess
import sys
import threading
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.admin import NewTopic
from fastapi.testclient import TestClient
from openai import OpenAI

from answerbus.client import SyncClient
from answerbus.client.testing import FakeClient, answered
from answerbus.topics import RESULTS
from tests.integration.bus import ANSWERED, Bus, create_topics
from tests.integration.kafka_admin import kafka_admin
from tests.plugins.installing import install

pytestmark = pytest.mark.kafka

EXAMPLES = Path(__file__).parents[2] / "examples"
LIMIT_S = 60.0
ROUTE = {"team": "billing", "urgent": True}
CALL = {"kind": "tool_call", "name": "get_order", "args": {"order_id": "4711"}}
SAID = {"kind": "text_response", "content": "It has left our warehouse."}
MOOD = {"kind": "mood", "feeling": "angry", "quote": "Third time I write."}


def rule(text: str, answer: Any) -> dict[str, Any]:
    return {"when": {"contains": text}, "reply": {"kind": "answered", "json": answer}}


RULES = [
    rule("has left the warehouse", {"actions": [SAID]}),
    rule("order 4711", {"actions": [CALL]}),
    rule("Third time", MOOD),
    rule("no team of ours", ROUTE),
    rule("Who sold me this?", {**ROUTE, "team": "sales"}),
    rule("charged twice", ROUTE),
    {"when": {"contains": "lodash"}, "reply": ANSWERED},
]


@dataclass(frozen=True)
class Stand:
    """A bus with a worker, and the environment in which examples find it."""

    bus: Bus
    variables: dict[str, str]

    def run(self, path: str, *arguments: str) -> str:
        """What a program prints."""
        program = EXAMPLES / path
        done = subprocess.run(
            [sys.executable, "-W", "error", str(program), *arguments],
            cwd=program.parent,
            env=self.variables,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout


@pytest.fixture(scope="module")
def stand(kafka_bootstrap: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stand]:
    folder = tmp_path_factory.mktemp("examples")
    bus = Bus(kafka_bootstrap, f"examples-{uuid.uuid4().hex[:12]}", 2, folder)
    asyncio.run(create_topics(bus))
    plugin = install(EXAMPLES / "own_contract", folder)
    given = {"KAFKA": bus.bootstrap, "TOPIC_PREFIX": bus.prefix, "FINDINGS": f"{bus.prefix}.f"}
    path = os.pathsep.join([str(plugin), *sys.path])
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {**given, "PYTHONPATH": path, "PYTHONUNBUFFERED": "1"}.items():
            patch.setenv(name, value)
        bus.start_worker(bus.config(RULES))
        yield Stand(bus, dict(os.environ))  # noqa: TID251 - for children
        bus.stop_workers()


def loaded(path: str) -> ModuleType:
    """An example as a module, which reads its variables now."""
    spec = spec_from_file_location(Path(path).stem, EXAMPLES / path)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_endpoint_answers_with_a_typed_body(stand: Stand) -> None:
    example = loaded("fastapi_endpoint/app.py")
    with TestClient(example.app) as http:
        answered = http.post("/tickets", json={"id": "17", "text": "I was charged twice."})
        schema = http.get("/openapi.json").json()["components"]["schemas"]["Route"]
        refused = http.post("/tickets", json={"id": "18", "text": "No rule is for this."})

    assert (answered.status_code, answered.json()) == (200, ROUTE)
    assert schema["properties"]["team"]["enum"] == ["billing", "shipping", "accounts"]
    assert refused.status_code == 502
    assert "dead letter" in refused.json()["detail"]


def test_the_endpoint_starts_without_kafka(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAFKA", "127.0.0.1:1")
    example = loaded("fastapi_endpoint/app.py")
    with TestClient(example.app) as http:
        away = http.post("/tickets", json={"id": "17", "text": "I was charged twice."})
        fake = FakeClient()
        fake.prepare(answered(ROUTE))
        example.app.dependency_overrides[example.client_of] = lambda: fake
        faked = http.post("/tickets", json={"id": "17", "text": "I was charged twice."})

    assert away.status_code == 503
    assert "127.0.0.1:1" in away.json()["detail"]
    assert (faked.status_code, faked.json()) == (200, ROUTE)


async def test_faststream_asks_upstream_and_reads_downstream(stand: Stand) -> None:
    await a_topic(stand.bus.bootstrap, stand.variables["FINDINGS"])
    finding = {"id": "1", "repository": "web-shop", "text": "lodash 4.17.20"}
    async with AIOKafkaProducer(bootstrap_servers=stand.bus.bootstrap) as producer:
        await producer.send_and_wait(stand.variables["FINDINGS"], json.dumps(finding).encode())
    programs = [
        await asyncio.create_subprocess_exec(
            *(sys.executable, str(EXAMPLES / "faststream" / name)),
            stdout=out,
            stderr=asyncio.subprocess.DEVNULL,
            env=stand.variables,
        )
        for name, out in (
            ("downstream.py", asyncio.subprocess.PIPE),
            ("upstream.py", asyncio.subprocess.DEVNULL),
        )
    ]
    line = b""
    try:
        assert programs[0].stdout is not None
        async with asyncio.timeout(LIMIT_S):
            while not line.startswith(b"finding-1:"):  # FastStream's own log is there, too
                line = await programs[0].stdout.readline()
                assert line
    finally:
        for program in programs:
            program.kill()
            await program.communicate()

    assert line.decode().strip() == "finding-1: lodash to 4.17.21"


async def a_topic(bootstrap: str, name: str) -> None:
    async with kafka_admin(bootstrap) as admin:
        await admin.create_topics([NewTopic(name, 1, 1)])


def test_the_loop_runs_the_tool_and_says_what_it_gave(stand: Stand) -> None:
    reported = stand.run("plain_loop/agent.py", "Where is my order 4711?", "chat-1")

    assert reported.strip() == SAID["content"]
    turns = [
        [action["kind"] for action in event["answer"]["actions"]]
        for event in asyncio.run(stand.bus.everything(RESULTS))
        if event["workflow_id"] == "chat-1"
    ]
    assert turns == [["tool_call"], ["text_response"]]


async def test_the_notebook_runs_in_a_running_loop(
    stand: Stand, capsys: pytest.CaptureFixture[str]
) -> None:
    """As Jupyter does: cell by cell in one namespace, while an event loop runs."""
    notebook = json.loads((EXAMPLES / "notebook/ask.ipynb").read_text("utf-8"))
    namespace: dict[str, Any] = {"__name__": "__main__"}
    assert asyncio.get_running_loop().is_running()
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
            code = compile("".join(cell["source"]), cell["id"], "exec", flags=flags)
            if inspect.iscoroutine(done := eval(code, namespace)):
                await done

    shown = capsys.readouterr().out.splitlines()
    assert shown[0].startswith("Published(")
    assert shown[-2].startswith("Route(team='billing', urgent=True) (result of ")
    assert shown[-1] == "billing"


def test_a_plugin_of_ones_own_is_asked_for_by_its_type(stand: Stand) -> None:
    assert stand.run("own_contract/ask.py").strip() == "angry"

    shown = subprocess.run(
        [sys.executable, "-m", "services.cli", "contracts", "show", "mood", "--json"],
        cwd=EXAMPLES.parent,
        env=stand.variables,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=True,
    )
    assert json.loads(shown.stdout)["distribution"] == "answerbus-moods 1.0.0"


def test_after_answers_what_before_answers(stand: Stand) -> None:
    before, after = loaded("from_json_mode/before.py"), loaded("from_json_mode/after.py")
    with chat_completions(json.dumps(ROUTE)) as url, OpenAI(api_key="none", base_url=url) as openai:
        asked_before = before.route(openai, "I was charged twice.")
    with SyncClient(stand.bus.bootstrap, topic_prefix=stand.bus.prefix) as client:
        asked_after = after.route(client, "17", "I was charged twice.")
        corrected = after.route(client, "18", "Who sold me this?")

    assert asked_after.model_dump() == asked_before.model_dump() == ROUTE
    assert corrected.team == "billing"  # the model was shown what the validator says


class chat_completions:  # noqa: N801 - used as a function
    """A server that gives one answer to every call of that API."""

    def __init__(self, content: str) -> None:
        message = {"role": "assistant", "content": content}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        body = {"id": "1", "object": "chat.completion", "created": 0, "model": "m"}
        self._server = ThreadingHTTPServer(
            ("127.0.0.1", 0), answering_with(json.dumps({**body, "choices": [choice]}).encode())
        )

    def __enter__(self) -> str:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


def answering_with(body: bytes) -> Callable[..., BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    return Handler


def test_the_tests_without_kafka_pass_without_kafka(tmp_path: Path) -> None:
    options = ["--quiet", "-p", "no:cacheprovider", "-o", "asyncio_mode=auto"]
    options += ["-o", "asyncio_default_fixture_loop_scope=function", "-W", "error"]
    folder = EXAMPLES / "without_kafka"
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, "--rootdir", str(folder), str(folder)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )

    assert "5 passed" in done.stdout, done.stdout + done.stderr

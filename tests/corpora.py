"""Real and hostile data for tests: what ships with the project, and larger corpora beside it."""

import base64
import gzip
import importlib.util
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pytest

FOLDER = Path(os.getenv("CORPORA_DIR") or Path(__file__).parents[2] / "shared" / "corpora")
SHIPPED = Path(__file__).parent / "cases"
OWN = ("hostile_schemas", "model_outputs", "plan_proposal", "records.py")
OTHERS = ("injections", "json_parsing", "json_schema_bench", "json_schema_test_suite")

Case = dict[str, Any]


class ParsingCase(NamedTuple):
    """A text to parse; `expect`: y (must), n (must not), i (either), transform (readers differ)."""

    name: str
    expect: str
    text: bytes


class SuiteFile(NamedTuple):
    """A file of the JSON Schema test suite: groups of a schema and its tests."""

    draft: str
    path: str
    groups: list[Case]


@dataclass(frozen=True, slots=True)
class Corpora:
    """A folder with some of the sets; a set that is not there has no cases."""

    folder: Path

    def schemas(self) -> Iterator[Case]:
        return _cases(self.folder / "json_schema_bench" / "schemas.jsonl")

    def suite(self) -> Iterator[SuiteFile]:
        for draft in ("draft2020-12", "draft7"):
            root = self.folder / "json_schema_test_suite" / draft
            for file in sorted(root.rglob("*.json")):
                name = file.relative_to(root).as_posix()
                yield SuiteFile(draft, name, json.loads(file.read_bytes()))

    def parsing(self) -> Iterator[ParsingCase]:
        for file in sorted((self.folder / "json_parsing").glob("test_*/*.json")):
            expect = file.name[0] if file.parent.name == "test_parsing" else "transform"
            yield ParsingCase(file.name, expect, file.read_bytes())

    def hostile_schemas(self) -> Iterator[Case]:
        return _cases(self.folder / "hostile_schemas" / "cases.jsonl")

    def plan_proposals(self) -> Iterator[Case]:
        return _cases(self.folder / "plan_proposal" / "cases.jsonl")

    def model_outputs(self) -> Iterator[Case]:
        for name in ("own", "third_party"):
            yield from _cases(self.folder / "model_outputs" / f"{name}.jsonl")

    def injections(self) -> Iterator[Case]:
        return _cases(self.folder / "injections" / "texts.jsonl")

    def records(self) -> Any:
        """The module that makes malformed records."""
        spec = importlib.util.spec_from_file_location(
            "malformed_records", self.folder / "records.py"
        )
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module


def corpora() -> Corpora:
    """The corpora beside the project; without them the module that asks is skipped."""
    if not all((FOLDER / name).is_dir() for name in OTHERS):
        reason = f"no corpora at {FOLDER}; set CORPORA_DIR to their folder"
        pytest.skip(reason, allow_module_level=True)
    return Corpora(FOLDER)


def own_cases() -> Corpora:
    """The sets that are this project's own: of the corpora, or as they ship with the project."""
    is_whole = all((FOLDER / name).exists() for name in OWN)
    return Corpora(FOLDER if is_whole else SHIPPED)


def raw(case: Case) -> bytes:
    """The text of a case as it is on the wire."""
    return base64.b64decode(case["raw_b64"]) if "raw_b64" in case else str(case["raw"]).encode()


def _cases(path: Path) -> Iterator[Case]:
    """The objects of a JSON lines file, or of its gzip twin."""
    packed = path.with_name(f"{path.name}.gz")
    if path.exists():
        text = path.read_bytes()
    elif packed.exists():
        text = gzip.decompress(packed.read_bytes())
    else:
        return
    for line in text.split(b"\n"):
        if line:
            yield json.loads(line)

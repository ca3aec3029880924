"""Files that people give to commands."""

import sys
from codecs import BOM_UTF8
from io import BytesIO, TextIOWrapper
from pathlib import Path

import pytest

from answerbus.registry import Registry
from answerbus.request import Fact, InlineRef
from services.command_line import content_of
from services.commands.ask_request import AskArguments
from services.commands.asking import _prepared
from services.commands.replay.options import edits_from


def test_a_byte_order_mark_of_an_editor_is_not_of_the_content(tmp_path: Path) -> None:
    file = tmp_path / "edit.json"
    patch = b'[{"op":"replace","path":"/ttl_s","value":7200}]'
    file.write_bytes(BOM_UTF8 + patch)

    assert content_of(file) == patch
    assert edits_from(str(file)) == edits_from(patch.decode())


@pytest.mark.parametrize("is_piped", [False, True])
def test_a_byte_order_mark_begins_no_value(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_piped: bool
) -> None:
    def file_of(name: str, text: str) -> str:
        (file := tmp_path / name).write_bytes(BOM_UTF8 + text.encode())
        monkeypatch.setattr(sys, "stdin", TextIOWrapper(BytesIO(file.read_bytes())))
        return "-" if is_piped else str(file)

    schema = str(tmp_path / "marked.json")
    fact = file_of("marked.json", '{"type":"object"}')
    asked = _prepared(AskArguments("Hi", facts=(f"f=@{fact}",), schema=schema), None, Registry())

    assert asked.context.facts == (Fact(name="f", value={"type": "object"}),)
    assert asked.answer_schema == InlineRef(name="marked", json_schema={"type": "object"})
    body = file_of("request.json", asked.model_dump_json(exclude_none=True))
    assert _prepared(AskArguments(""), body, Registry()) == asked

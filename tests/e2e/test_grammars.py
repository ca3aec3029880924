"""What the dialect `llama_cpp` says is enforced, the grammars of a real server do enforce."""

import json
import random
from collections.abc import Iterator
from typing import Any
from urllib.request import Request, urlopen

import pytest
from pydantic import JsonValue

from infra.local_model import LocalModel
from tests.escapes import CONTRACTS, OWN, Draw, escapes, real_world
from tests.gbnf import Grammar

pytestmark = pytest.mark.real_llm

SENTENCES = 30
LIMIT_S = 60.0
RULE = "response-format"  # the server's name for an answer
EVERY = 12  # of the real-world schemas; the whole takes minutes


def grammar(model: LocalModel, schema: JsonValue) -> Grammar:
    """The grammar that the server makes of a schema; it tells who asks for it."""
    wanted = {"type": "json_schema", "json_schema": {"name": "a", "schema": schema}}
    body = {"messages": [{"role": "user", "content": "-"}], "max_tokens": 1, "verbose": True}
    asked = Request(
        f"{model.base_url}/chat/completions",
        json.dumps({**body, "response_format": wanted}).encode(),
        {"content-type": "application/json"},
    )
    with urlopen(asked, timeout=LIMIT_S) as reported:
        return Grammar(json.load(reported)["__verbose"]["generation_settings"]["grammar"])


def drawn_by(model: LocalModel) -> Draw:
    def draw(schema: JsonValue) -> Iterator[str]:
        made, chance = grammar(model, schema), random.Random(1)
        return (made.sentence(RULE, chance) for _ in range(SENTENCES))

    return draw


@pytest.mark.parametrize("schema", OWN + CONTRACTS, ids=lambda schema: json.dumps(schema)[:60])
def test_nothing_but_what_is_noted_escapes(model: LocalModel, schema: Any) -> None:
    assert escapes(schema, "llama_cpp", drawn_by(model)) == []


def test_nothing_escapes_real_world_schemas(model: LocalModel) -> None:
    schemas, draw = real_world(EVERY), drawn_by(model)
    found = {
        json.dumps(schema)[:80]: out
        for schema in schemas
        if (out := escapes(schema, "llama_cpp", draw))
    }

    assert schemas
    assert found == {}

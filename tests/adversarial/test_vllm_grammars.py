"""What the dialect `vllm` says is enforced, the grammars of both of vLLM's engines do enforce.

xgrammar needs PyTorch, so it is not among our packages: `pip install xgrammar` for its cases.
"""

import json
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import pytest

from tests.engines import from_llguidance, from_xgrammar
from tests.escapes import CONTRACTS, OWN, Draw, escapes, real_world

EVERY = 24  # of the real-world schemas
ENGINES: dict[str, Draw] = {"llguidance": from_llguidance}
if find_spec("xgrammar"):
    ENGINES["xgrammar"] = partial(from_xgrammar, import_module("xgrammar"), import_module("numpy"))
EACH = pytest.mark.parametrize("engine", ENGINES)


@EACH
@pytest.mark.parametrize("schema", OWN + CONTRACTS, ids=lambda schema: json.dumps(schema)[:60])
def test_nothing_but_what_is_noted_escapes(engine: str, schema: Any) -> None:
    assert escapes(schema, "vllm", ENGINES[engine]) == []


@EACH
def test_nothing_escapes_real_world_schemas(engine: str) -> None:
    schemas = real_world(EVERY)
    found = {
        json.dumps(schema)[:80]: out
        for schema in schemas
        if (out := escapes(schema, "vllm", ENGINES[engine]))
    }

    assert schemas
    assert found == {}

"""The corpora of real and hostile data, which are no part of this repository."""

import importlib.util
import os
from functools import cache
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(os.getenv("CORPORA_DIR") or Path(__file__).parents[2] / "shared" / "corpora")


@cache
def corpora() -> Any:
    """The corpora's own loader; a module that asks for it is skipped where there are none."""
    source = FOLDER / "load.py"
    if not source.exists():
        reason = f"no corpora at {FOLDER}; set CORPORA_DIR to their folder"
        pytest.skip(reason, allow_module_level=True)
    spec = importlib.util.spec_from_file_location("corpora_load", source)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module

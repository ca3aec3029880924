"""What holds for all rules that read the source."""

import gc
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True, scope="module")
def no_search_for_garbage() -> Iterator[None]:
    """Trees of the whole source are kept: to search them for garbage takes longer than to parse."""
    gc.disable()
    yield
    gc.freeze()
    gc.enable()

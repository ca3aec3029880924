"""A real broker and a real model for the tests here."""

import os
from collections.abc import Iterator

import pytest

from infra.local_model import LocalModel, start_model
from infra.setup_error import SetupError
from tests.integration.conftest import bus, kafka_bootstrap, make_prefix

__all__ = ["bus", "kafka_bootstrap", "make_prefix", "model"]


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalModel]:
    """The local model; where none can be had that is a skip, or a failure if REQUIRE_REAL_LLM=1."""
    try:
        served = start_model(logs=tmp_path_factory.mktemp("model"))
    except SetupError as error:
        if os.getenv("REQUIRE_REAL_LLM") == "1":
            raise
        pytest.skip(f"no local model here: {error}")
    with served:
        yield served

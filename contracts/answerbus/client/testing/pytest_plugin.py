"""The fixture `fake_client`: `pytest_plugins = ["answerbus.client.testing.pytest_plugin"]`."""

import pytest

from answerbus.client.testing.fake_client import FakeClient


@pytest.fixture
def fake_client() -> FakeClient:
    """A client without Kafka, which knows the installed contracts and any profile."""
    return FakeClient()

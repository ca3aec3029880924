"""Test a service without Kafka, workers and models: see FakeClient, and pytest_plugin's fixture."""

from answerbus.client.testing.errors import FakeClientError
from answerbus.client.testing.fake_client import FakeClient
from answerbus.client.testing.replies import (
    Asked,
    Reply,
    answered,
    dead_letter,
    kafka_away,
    refused,
    silence,
    unvalidated,
)

__all__ = [
    "Asked",
    "FakeClient",
    "FakeClientError",
    "Reply",
    "answered",
    "dead_letter",
    "kafka_away",
    "refused",
    "silence",
    "unvalidated",
]

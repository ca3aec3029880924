"""Test a service without Kafka, workers and models: see FakeClient, and pytest_plugin's fixture."""

from answerbus.client.testing.cassettes import accepted_answer, compare_tools, load_cassette
from answerbus.client.testing.errors import CassetteError, FakeClientError
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
    "CassetteError",
    "FakeClient",
    "FakeClientError",
    "Reply",
    "accepted_answer",
    "answered",
    "compare_tools",
    "dead_letter",
    "kafka_away",
    "load_cassette",
    "refused",
    "silence",
    "unvalidated",
]

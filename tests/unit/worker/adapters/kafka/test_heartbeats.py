"""How soon a member of the workers' group hears that the group changes."""

import pytest

from services.settings.settings import KafkaSettings
from services.worker.adapters.kafka.subscription import heartbeat_ms


@pytest.mark.parametrize(
    ("session_ms", "heartbeat"), [(1_000, 200), (6_000, 1_000), (45_000, 1_000), (1_800_000, 1_000)]
)
def test_a_member_learns_within_a_second_that_another_has_joined(
    session_ms: int, heartbeat: int
) -> None:
    """Its answer is awaited by all others, which may begin nothing until it has joined again."""
    assert heartbeat_ms(session_ms) == heartbeat


def test_the_default_session_has_enough_heartbeats() -> None:
    session_ms = KafkaSettings().session_timeout_ms
    assert session_ms / heartbeat_ms(session_ms) >= 5

"""`answerbus topics move` counts the workers that must be stopped first."""

from datetime import UTC, datetime

import pytest

from answerbus.private.ledger import LaneRecord
from services.commands.repartitioning import move


@pytest.mark.parametrize(("members", "said"), [(1, "1 member"), (2, "2 members")])
def test_workers_that_are_there_are_counted(members: int, said: str) -> None:
    text = move._members_text("acme.worker", members)

    assert text is not None
    assert text.startswith(f"The group acme.worker has {said}: stop all workers first.")


@pytest.mark.parametrize("group", [None, "acme.worker", "acme.other"])
def test_a_group_that_is_not_that_of_the_lanes_is_named(group: str | None) -> None:
    at = datetime(2026, 11, 21, tzinfo=UTC)
    lane = LaneRecord(partitions=4, openings_without_progress=0, worker="w-1", group=group, at=at)
    text = move._group_text("acme.worker", {0: lane})

    expected = (
        "The lanes are of the consumer group acme.other, and the settings name acme.worker: set "
        "`kafka.group_id` to acme.other and run the same again, or start workers of acme.worker "
        "once and stop them. Nothing was moved."
    )
    assert text == (expected if group == "acme.other" else None)

"""`answerbus topics move` counts the workers that must be stopped first."""

import pytest

from services.commands.repartitioning import move


@pytest.mark.parametrize(("members", "said"), [(1, "1 member"), (2, "2 members")])
def test_workers_that_are_there_are_counted(members: int, said: str) -> None:
    text = move._members_text("acme.worker", members)

    assert text is not None
    assert text.startswith(f"The group acme.worker has {said}: stop all workers first.")

"""Pages of the largest content hold the console's event loop for a moment alone."""

import pytest

from tests.cost.budget import ANYBODY, MARGIN
from tests.cpu_time import CpuTime
from tests.fuzz.cost.pages import CONTENTS, held_s


@pytest.mark.parametrize("name", [name for name in CONTENTS if name.startswith("a dead letter")])
async def test_a_large_dead_letter_holds_the_loop_for_a_moment(name: str) -> None:
    for path, longest_s in (await held_s(name)).items():
        assert CpuTime(longest_s).is_below(MARGIN * ANYBODY.loop_s), path


async def test_large_approvals_hold_the_loop_for_a_moment() -> None:
    (longest_s,) = (await held_s("approvals")).values()

    assert CpuTime(longest_s).is_below(MARGIN * ANYBODY.loop_s)

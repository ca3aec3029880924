"""A check of one toolset, from now on."""

from collections.abc import Callable, Sequence

from answerbus.client.bus import Bus
from services.tools.check.cases import Sample
from services.tools.check.rule import Ruling
from services.tools.session import Checked, check, hand_caller
from services.worker.adapters.clock import SystemClock


async def check_now(
    bus: Bus,
    toolset: str,
    sample: Sample | None,
    name: str,
    token: str,
    timeout_s: float,
    say: Callable[[str], None],
) -> Sequence[Ruling]:
    """Every ruling. Raises BusUnavailable, SetUpError."""
    at = SystemClock().now()
    checked = Checked(toolset, hand_caller(bus, name, token), at, timeout_s, sample)
    return await check(bus, checked, say)

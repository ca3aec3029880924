"""The rows of the lane's table that histories do not come to, and why."""

from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet

from services.worker.lane.machine import TRANSITIONS
from tests.unit.lane.noted import Pair

_REVOKED_FIRST = "before each assignment Kafka revokes"
_REPLACED = "only a consumer that is replaced revokes what is not assigned (renewal.renew)"
_TOO_LONG = "what takes so long is bounded by less"
_REFUSED = "no history holds state that cannot be read"

NOT_MET: Mapping[Pair, str] = {}


def never_met(met: AbstractSet[Pair]) -> Iterator[str]:
    """One line for each row that was not met."""
    for state, event in TRANSITIONS:
        if (state, event) not in met:
            why = NOT_MET.get((state, event), "nobody knows why: a rare one, or a dead row")
            yield f"never met: {state.name} {event.name} ({why})"

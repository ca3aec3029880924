"""Lanes' records about themselves: the last of each, and whether they agree; pure."""

from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass, field

from answerbus.partition import Layout
from answerbus.private.ledger import LaneRecord, Skipped
from answerbus.wire import bytes_digest

KEPT = 16  # of one lane: an operator may pass so many by, one after the other


@dataclass(frozen=True, slots=True)
class LaneStatement:
    """A lane's record, and where it is in its partition of the ledger."""

    offset: int
    value: bytes
    record: LaneRecord


@dataclass(slots=True)
class LaneRecords:
    """The records of one lane in their order; one that an operator has skipped does not count."""

    _found: deque[LaneStatement] = field(default_factory=lambda: deque(maxlen=KEPT))

    def take(self, offset: int, value: bytes, record: LaneRecord) -> None:
        self._found.append(LaneStatement(offset, value, record))

    def skip(self, skipped: Skipped) -> LaneStatement | None:
        """Pass one by, if it is meant; gives it."""
        for unreadable in self._found:
            if (
                unreadable.offset == skipped.offset
                and bytes_digest(unreadable.value) == skipped.digest
            ):
                self._found.remove(unreadable)
                return unreadable
        return None

    def end(self) -> None:
        """A null value: the lane has no record any more."""
        self._found.clear()

    @property
    def statement(self) -> LaneStatement | None:
        return self._found[-1] if self._found else None

    @property
    def last(self) -> LaneRecord | None:
        return self._found[-1].record if self._found else None


@dataclass(frozen=True, slots=True)
class Agreement:
    """`layout` is what most lanes say, None where none says anything that can be.

    `wrong` says of each other lane what is wrong with its record. `is_tied`: as many say one number
    as another, so that none is known to be right; then all of them are in `wrong`. `lanes` are the
    records themselves.
    """

    layout: Layout | None
    wrong: Mapping[int, str]
    is_tied: bool = False
    lanes: Mapping[int, LaneRecord] = field(default_factory=dict, compare=False)

    def __str__(self) -> str:
        message = "; ".join(f"lane {number}: {why}" for number, why in self.wrong.items())
        return (
            f"the lanes of this deployment disagree about its number of partitions ({message}): "
            "see `answerbus lanes show`; `answerbus lanes skip` passes a wrong record by"
        )


def agreed(lanes: Mapping[int, LaneRecord], there: int) -> Agreement:
    """What the lanes of a ledger with so many partitions say together.

    A move writes all of them in one transaction, so that lanes which differ are not half of a move.
    """
    wrong = {number: why for number, it in lanes.items() if (why := _impossible(number, it, there))}
    rest = {number: it for number, it in lanes.items() if number not in wrong}
    votes = Counter((it.partitions, it.moving_to) for it in rest.values()).most_common()
    if not votes:
        return Agreement(None, wrong)
    is_tied = len(votes) > 1 and votes[0][1] == votes[1][1]
    most = None if is_tied else votes[0][0]
    agreeing = [it for it in rest.values() if (it.partitions, it.moving_to) == most]
    wrong |= {number: _statement_text(it) for number, it in rest.items() if it not in agreeing}
    wrong = dict(sorted(wrong.items()))
    if most is None:
        return Agreement(None, wrong, is_tied=True)
    earlier = max((it.earlier for it in agreeing), key=len)  # a lane that was skipped knows of none
    return Agreement(Layout(most[0], earlier, most[1]), wrong, lanes=lanes)


def _impossible(number: int, record: LaneRecord, there: int) -> str | None:
    if record.partitions > there:
        return f"{_statement_text(record)}, and the ledger has {there}"
    if number >= record.partitions:
        return f"{_statement_text(record)}, and none of them is this"
    return None


def _statement_text(record: LaneRecord) -> str:
    moving = f" and a move to {record.moving_to}" if record.moving_to is not None else ""
    return f"it says {record.partitions} partitions{moving}"

"""Whether each request has one terminal event, and a duplicate none of its own."""

from collections.abc import Iterable, Sequence

from answerbus.dead_letter import DeadLetter
from answerbus.outcome import Refusal, Result, UnvalidatedResult
from infra.demo.board import Row, belongs
from services.operators.records.decoded import DecodedRecord

ANSWERS_LIMIT_S = 300.0


def late_text(late: Sequence[str]) -> str:
    """Why the demo ended before all was done; `late` are the requests without an outcome."""
    if not late:
        return "the workers' offsets are not committed in time"
    return (
        f"no outcome within {ANSWERS_LIMIT_S:.0f} s: {', '.join(late)}. "
        "Is this machine busy? The model shares its cores."
    )


def broken_promises(rows: Sequence[Row], everything: Iterable[DecodedRecord]) -> list[str]:
    """What is wrong with all that is in the topics of terminal events; empty if nothing is."""
    terminals = [seen for seen in everything if _is_terminal(seen)]
    counted = [(row, sum(belongs(seen, row) for seen in terminals)) for row in rows]
    wrong = [
        f"{row.case.name} has {count} terminal events instead of {_due(row)}"
        for row, count in counted
        if count != _due(row)
    ]
    unknown = [seen for seen in terminals if not any(belongs(seen, row) for row in rows)]
    return [*wrong, *(f"the {seen.kind} of {seen.subject} answers nothing" for seen in unknown)]


def _due(row: Row) -> int:
    return 0 if row.case.is_duplicate else 1


def _is_terminal(seen: DecodedRecord) -> bool:
    return isinstance(seen.event, Result | UnvalidatedResult | Refusal | DeadLetter)

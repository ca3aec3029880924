"""The end of the demo: a summary, one answer as it is on the wire, and the next steps."""

from collections import Counter
from collections.abc import Iterable, Sequence

from rich.console import Console

from answerbus.dead_letter import DeadLetter
from answerbus.outcome import Refusal, Result, UnvalidatedResult
from infra.demo.board import Row, belongs
from services.operators.records.decoded import DecodedRecord
from services.text.counted import count_text

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
    """The faults in the topics of terminal events; empty if there are none."""
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


NEXT = """\
Go on with:
  make up                          the same stack, kept running
  source .venv/bin/activate
  answerbus ask 'Two coffees and a muffin to go, please.' --schema infra/demo/order.json --bare
  answerbus ask 'Use the echo tool to echo the phrase Hello.' --agent helper --follow
  answerbus watch
  make down
What was asked here: infra/demo/requests"""


def summary(console: Console, rows: Sequence[Row], wrong: Sequence[str], took_s: float) -> None:
    """How many of what, and whether each request has its one terminal event."""
    kinds = Counter(terminal.kind for row in rows for terminal in row.terminals)
    counted = ", ".join(
        count_text(count, kind.replace("_", " ")) for kind, count in kinds.most_common()
    )
    attempts, tokens = sum(row.attempts for row in rows), sum(row.tokens for row in rows)
    duplicates = sum(row.case.is_duplicate for row in rows)
    console.print(
        f"\n{len(rows)} records, {duplicates} of them a duplicate: {counted}; "
        f"{attempts} attempts, {tokens:,} tokens, {took_s:.1f} s in all",
        soft_wrap=True,
    )
    for line in wrong:
        console.print(line, style="red", markup=False, soft_wrap=True)
    if not wrong:
        console.print("Each request has exactly one terminal event, the duplicate none.")


def sample(console: Console, rows: Sequence[Row]) -> None:
    """The first answer, as downstream reads it."""
    results = (
        (row, terminal)
        for row in rows
        for terminal in row.terminals
        if isinstance(terminal, Result)
    )
    for row, result in results:
        console.print(f"\nThe result of {row.case.name}, as it is on the topic results:")
        shown = {"kind", "request_id", "workflow_id", "answered_schema", "answer", "model", "usage"}
        console.print_json(result.model_dump_json(include=shown, by_alias=True))
        return


def next_steps(console: Console) -> None:
    console.print(f"\n{NEXT}", markup=False)

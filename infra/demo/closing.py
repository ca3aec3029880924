"""The end of the demo: a summary, one answer as it is on the wire, and the next steps."""

from collections import Counter
from collections.abc import Sequence

from rich.console import Console

from answerbus.outcome import Result
from infra.demo.board import Row

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
    counted = ", ".join(_count(count, kind) for kind, count in kinds.most_common())
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


def _count(count: int, kind: str) -> str:
    return f"{count} {kind.replace('_', ' ')}{'' if count == 1 else 's'}"


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

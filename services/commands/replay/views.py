"""Dead letters and groups as tables and as JSON data."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import TypedDict, get_args

import typer
from rich.table import Table
from rich.text import Text

from answerbus.dead_letter import Replayed
from answerbus.wire import format_timestamp
from services.command_line import stderr
from services.commands.long_task import HowEnded
from services.console.views.units import usd
from services.operators.dead_letters.forecast import Forecast
from services.operators.dead_letters.groups import Group, Key
from services.operators.dead_letters.index import DeadLetterIndex, Ending, ReplayOutcome
from services.operators.dead_letters.row import BudgetAmounts, DeadLetterRow
from services.text.counted import count_text
from services.text.escaping import json_lines, plain_line

DEAD_AGAIN_SHOWN_MAX = 10
CELL_WIDTH_MAX = 48  # characters, as of a dead letter whose request is named by a UUID
_ENDINGS: tuple[Ending, ...] = get_args(Ending)
RUNS_SHOWN = 20  # of a forecast; --json has all


def print_json(data: object) -> None:
    typer.echo(json_lines(data))


def print_undecodable(dead_letters: DeadLetterIndex) -> None:
    """Say that records of the topic were no dead letters."""
    if dead_letters.undecodable:
        message = f"{dead_letters.undecodable} records in the topics are not our events."
        stderr().print(message, style="yellow")


def groups_lines(groups: Sequence[Group], keys: Sequence[Key]) -> Iterator[Text]:
    """Two lines for each group, so that a sample's id can be copied on any screen."""
    rows = [[f"{group.count:,}", *map(_text_or_dash, group.values)] for group in groups]
    heads, *lines = _aligned([["dead letters", *map(str, keys)], *rows])
    yield Text(heads, "dim")
    for one, line in zip(groups, lines, strict=True):
        yield Text(line, "bold")
        when = f"{_minute(one.oldest_ms)} to {_minute(one.newest_ms)} UTC"
        message = f"{when}, {amounts_text(one.spent)}, such as {plain_line(one.sample.text)}"
        yield Text(f"        {message}", "dim")
    count = count_text(sum(one.count for one in groups), "dead letter")
    yield Text(f"{count} in {count_text(len(groups), 'group')}")


def group_data(group: Group, keys: Sequence[Key]) -> Mapping[str, object]:
    return {
        "group": dict(zip(map(str, keys), group.values, strict=True)),
        "count": group.count,
        "oldest": _time(group.oldest_ms),
        "newest": _time(group.newest_ms),
        "sample": group.sample.text,
        "spent": _amounts_data(group.spent),
    }


def dead_letter_lines(
    chosen: Sequence[DeadLetterRow], dead_letters: DeadLetterIndex
) -> Iterator[Text]:
    """One line for each dead letter."""
    heads = ["died (UTC)", "dead letter", "workflow", "why", "schema", "profile", "status"]
    rows = [
        [
            _minute(dead_letter.at_ms),
            *map(_text_or_dash, (dead_letter.id, dead_letter.workflow_id, dead_letter.why)),
            *map(
                _text_or_dash,
                (
                    dead_letter.schema,
                    dead_letter.profile,
                    _status(dead_letter, dead_letters.replay_outcome(dead_letter)),
                ),
            ),
        ]
        for dead_letter in chosen
    ]
    first, *lines = _aligned([heads, *rows])
    yield Text(first, "dim")
    yield from map(Text, lines)


def dead_letter_data(
    dead_letter: DeadLetterRow, outcome: ReplayOutcome | None
) -> Mapping[str, object]:
    sent, aside = dead_letter.replay, dead_letter.dismissal
    return {
        "dead_letter_id": dead_letter.id,
        "at": _time(dead_letter.at_ms),
        "cause": dead_letter.cause,
        "failure": dead_letter.failure,
        "why": dead_letter.why,
        "request_id": dead_letter.request_id,
        "workflow_id": dead_letter.workflow_id,
        "schema": dead_letter.schema,
        "profile": dead_letter.profile,
        "model": dead_letter.model,
        "labels": dict(dead_letter.labels),
        "account_id": dead_letter.account_id,
        "spent": _amounts_data(dead_letter.spent) if dead_letter.spent else None,
        "round": dead_letter.round,
        "partition": dead_letter.place.partition,
        "offset": dead_letter.place.offset,
        "status": dead_letter.status,
        "replayed_as": sent.request_id if sent else None,
        "by": sent.by if sent else aside.by if aside else None,
        "reason": sent.reason if sent else aside.reason if aside else None,
        "fate": outcome.ending if outcome else None,
        "new_letter": _new_dead_letter(outcome),
    }


def _new_dead_letter(outcome: ReplayOutcome | None) -> str | None:
    return outcome.dead_letter.dead_letter_id if outcome and outcome.dead_letter else None


class StatusData(TypedDict):
    """The output of `status`; `fates` counts the outcomes of replays."""

    open: int
    dismissed: int
    replayed: int
    fates: dict[Ending, int]
    dead_again: list[dict[str, str | None]]


def status_data(chosen: Sequence[DeadLetterRow], dead_letters: DeadLetterIndex) -> StatusData:
    """How many dead letters are where, as JSON data."""
    outcomes = [(dead_letter, dead_letters.replay_outcome(dead_letter)) for dead_letter in chosen]
    statuses = Counter(dead_letter.status for dead_letter in chosen)
    endings = Counter(outcome.ending for _, outcome in outcomes if outcome)
    return {
        "open": statuses["open"],
        "dismissed": statuses["dismissed"],
        "replayed": statuses["replayed"],
        "fates": {ending: endings[ending] for ending in _ENDINGS},
        "dead_again": [
            {
                "dead_letter_id": dead_letter.id,
                "workflow_id": dead_letter.workflow_id,
                "new_letter": _new_dead_letter(outcome),
            }
            for dead_letter, outcome in outcomes
            if outcome and outcome.ending == "dead"
        ],
    }


def status_table(data: StatusData) -> Table:
    """The same for people."""
    table = Table("dead letters", "")
    for count, name in (
        (data["open"], "open"),
        (data["dismissed"], "dismissed"),
        (data["replayed"], "replayed, among them"),
        *((data["fates"][ending], f"  {ending}") for ending in _ENDINGS),
    ):
        table.add_row(f"{count:,}", name)
    return table


def dead_again_lines(data: StatusData) -> Iterator[Text]:
    """A few of those that died again, each on a line, so that ids can be copied on any screen."""
    for found in data["dead_again"][:DEAD_AGAIN_SHOWN_MAX]:
        message = f"died again: {found['dead_letter_id']} -> {found['new_letter']}"
        yield Text(plain_line(message), "dim")
    if (more := len(data["dead_again"]) - DEAD_AGAIN_SHOWN_MAX) > 0:
        yield Text(f"and {more:,} more; --json has all")


def amounts_text(amounts: BudgetAmounts) -> str:
    """Amounts spent, or limits, in words."""
    tokens = "any number of tokens"
    if amounts.tokens is not None:
        tokens = count_text(amounts.tokens, "token")
    micro_usd = amounts.micro_usd
    money = "no limit in money" if micro_usd is None else usd(micro_usd)
    return f"{count_text(amounts.attempts, 'attempt')}, {tokens}, {money}"


def _amounts_data(amounts: BudgetAmounts) -> Mapping[str, int | None]:
    """The same as JSON data."""
    return {
        "attempts": amounts.attempts,
        "tokens": amounts.tokens,
        "micro_usd": amounts.micro_usd,
    }


def _status(dead_letter: DeadLetterRow, outcome: ReplayOutcome | None) -> str:
    return dead_letter.status + (f", {outcome.ending}" if outcome else "")


def _aligned(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Rows with their columns below one another, however wide the screen is.

    What is longer than most ids moves the rest of its own row alone.
    """
    widths = [min(max(map(len, column)), CELL_WIDTH_MAX) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (text.ljust(width) for text, width in zip(row, widths, strict=True))
        yield "  ".join(cells).rstrip()


def _text_or_dash(value: str | None) -> str:
    return "-" if value is None else plain_line(value)


def _minute(at_ms: int) -> str:
    return f"{datetime.fromtimestamp(at_ms / 1000, UTC):%m-%d %H:%M}"


def _time(at_ms: int) -> str:
    return format_timestamp(datetime.fromtimestamp(at_ms / 1000, UTC))


def worst_text(amounts: BudgetAmounts) -> str:
    """The most that replays can use; what is not known is left out."""
    tokens = "" if amounts.tokens is None else f", {count_text(amounts.tokens, 'token')}"
    money = "" if amounts.micro_usd is None else f", {usd(amounts.micro_usd)}"
    return f"at most {count_text(amounts.attempts, 'call')}{tokens}{money}"


def forecast_lines(forecast: Forecast, verb: str) -> Iterator[Text]:
    """What is sent and at what cost at worst; what is held back, why, and one of them.

    Each on a line of its own, so that ids can be copied on any screen.
    """
    worst = worst_text(forecast.worst_known)
    yield Text(f"{count_text(forecast.sendable, 'dead letter')} {verb}: {worst}", "bold")
    for reason, count in forecast.unknown.most_common():
        message = f"of these, the cost of {count:,} cannot be estimated: {reason}"
        yield Text(f"  {plain_line(message)}")
    for one in forecast.dearest:
        message = f"{worst_text(one.worst.amounts)}: {one.dead_letter.text}"
        yield Text(f"  {plain_line(message)}", "dim")
    for run in forecast.runs[:RUNS_SHOWN]:
        yield Text(f"  {plain_line(f'a run {run.text()}: {run.dead_letter.text}')}")
    if (more := len(forecast.runs) - RUNS_SHOWN) > 0:
        yield Text(f"  {count_text(more, 'more run')}")
    for held in forecast.held_back.values():
        forced = " (--force sends it)" if held.rejection.forcible else ""
        why = f"{held.rejection.code}: {held.rejection.text}{forced}"
        message = f"{count_text(held.count, 'dead letter')} held back, {why}"
        yield Text(plain_line(f"{message}, such as {held.sample.text}"), "yellow")


def forecast_data(forecast: Forecast) -> dict[str, object]:
    """The same as JSON data."""
    return {
        "sendable": forecast.sendable,
        "worst": _amounts_data(forecast.worst_known),
        "not_estimated": dict(forecast.unknown),
        "dearest": [
            {
                "dead_letter_id": one.dead_letter.dead_letter_id,
                "workflow_id": one.dead_letter.workflow_id or None,
                "worst": _amounts_data(one.worst.amounts),
            }
            for one in forecast.dearest
        ],
        "runs": [
            {
                "dead_letter_id": run.dead_letter.dead_letter_id,
                "workflow_id": run.dead_letter.workflow_id or None,
                "goes_on_at_step": None if run.starts_over else run.next_step,
                "effects": [
                    {"call_id": call.call_id, "tool": call.tool, "outcome": call.outcome.kind}
                    for call in run.effects
                ],
            }
            for run in forecast.runs
        ],
        "held_back": [
            {
                "code": held.rejection.code,
                "text": held.rejection.text,
                "forcible": held.rejection.forcible,
                "count": held.count,
                "sample": held.sample.text,
            }
            for held in forecast.held_back.values()
        ],
    }


def done_data(sent: Sequence[Replayed], forecast: Forecast, end: HowEnded) -> Mapping[str, object]:
    """The result as JSON data."""
    dead_letters = [
        {
            "dead_letter_id": one.dead_letter_id,
            "workflow_id": one.workflow_id,
            "request_id": one.request_id,
            "round": one.round,
        }
        for one in sent
    ]
    return {"end": end, "replayed": len(sent), **forecast_data(forecast), "letters": dead_letters}

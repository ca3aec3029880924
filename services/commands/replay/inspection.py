"""`answerbus replay show`: all facts about one dead letter."""

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated

import typer
from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.text import Text

from answerbus.attempt import Attempt
from answerbus.client.bus import Bus
from answerbus.dead_letter import DeadLetter
from answerbus.failure import Failure, Invalid
from answerbus.request import Prior
from answerbus.topics import ATTEMPTS, TOPICS
from services.command_line import AsJson, Config, bus_of, json_shown, stdout
from services.commands.replay import views
from services.commands.replay.loading import loaded_once, report_unavailable_ids
from services.operators.adapters.bodies import Body, bodies
from services.operators.adapters.reader import reading
from services.operators.dead_letters import index
from services.operators.dead_letters.index import DeadLetterIndex
from services.operators.dead_letters.prepare_replay import Rejection
from services.operators.dead_letters.remedy import remedy_of
from services.operators.dead_letters.row import DeadLetterRow
from services.operators.explain import cause_text, failure_text, problem_text, written_text
from services.operators.records.stored import Stored
from services.operators.records.summary import summarize
from services.operators.timeline.entry import DEAD_LETTER_SUFFIX, TimelineEntry
from services.operators.timeline.rendering import as_data, line_of
from services.operators.timeline.timeline import may_concern, timeline
from services.settings.settings import from_environment
from services.text.escaping import plain, plain_line

DeadLetterId = Annotated[
    str, typer.Argument(metavar="ID", help="As `groups` and `list` show it; or ID@WORKFLOW.")
]


@dataclass(frozen=True, slots=True)
class DeadLetterHistory:
    """A dead letter, whole or why not, and the events of its request and its replay, in order."""

    dead_letter: DeadLetterRow
    dead_letters: DeadLetterIndex
    body: Body
    entries: Sequence[TimelineEntry]

    @property
    def attempts(self) -> list[Attempt]:
        """The outcome of each spend."""
        found = [
            entry.seen.event for entry in self.entries if isinstance(entry.seen.event, Attempt)
        ]
        return [one for one in found if one.request_id == self.dead_letter.request_id]


def show(dead_letter_id: DeadLetterId, *, as_json: AsJson = False, config: Config = None) -> None:
    """Show one dead letter: request, attempts with their problems, account, what came of it.

    Exit code 1 if there is no such dead letter, or if several workflows have one of that id.
    """
    history = asyncio.run(_history(bus_of(from_environment(config).kafka), dead_letter_id))
    if as_json:
        views.print_json(_data(history))
    else:
        for part in _parts(history):  # lines of a box that are longer than the terminal are cut
            stdout().print(part, soft_wrap=not isinstance(part, Panel))


async def _history(bus: Bus, dead_letter_id: str) -> DeadLetterHistory:
    dead_letters = await loaded_once(bus, index.TOPICS)
    found = dead_letters.named(dead_letter_id)
    if len(found) != 1:
        report_unavailable_ids(dead_letters, (dead_letter_id,))
        raise typer.Exit(1)
    dead_letter = found[0]
    ((_, body),) = [pair async for pair in bodies(bus, (dead_letter,))]
    records = await _records(bus, dead_letter.workflow_id) if dead_letter.workflow_id else []
    for stored in records:
        if stored.topic is ATTEMPTS:
            dead_letters.take(summarize(stored))  # they say the model
    about = {dead_letter.request_id, dead_letter.id.removesuffix(DEAD_LETTER_SUFFIX)}
    if dead_letter.replay:
        about.add(dead_letter.replay.request_id)
    entries = timeline(dead_letter.workflow_id or "", records)
    return DeadLetterHistory(
        dead_letter, dead_letters, body, [entry for entry in entries if entry.request_id in about]
    )


async def _records(bus: Bus, workflow_id: str) -> list[Stored]:
    async with reading(bus, TOPICS, workflow_id=workflow_id) as reader:
        return [stored async for stored in reader.records() if may_concern(workflow_id, stored)]


def _data(history: DeadLetterHistory) -> dict[str, object]:
    body = history.body
    return {
        "letter": views.dead_letter_data(
            history.dead_letter, history.dead_letters.replay_outcome(history.dead_letter)
        ),
        "event": body.model_dump(mode="json") if isinstance(body, DeadLetter) else body.text,
        "attempts": [attempt.model_dump(mode="json") for attempt in history.attempts],
        "timeline": [as_data(entry, show_content=False) for entry in history.entries],
    }


def _parts(history: DeadLetterHistory) -> Iterator[RenderableType]:
    dead_letter, body = history.dead_letter, history.body
    if isinstance(body, Rejection):
        yield Text(plain(body.text), "red")
    else:
        yield Panel(
            Group(Text(cause_text(body.cause), "bold"), Text(remedy_of(body))),
            title=Text(plain_line(dead_letter.id)),
            border_style="red",
            title_align="left",
        )
        yield _request(body)
    if dead_letter.spent:
        yield Text(
            plain_line(
                f"Account {dead_letter.account_id} spent {views.amounts_text(dead_letter.spent)}."
            )
        )
    for attempt in history.attempts:
        yield from _attempt(attempt)
    if isinstance(body, DeadLetter) and not history.attempts:
        yield from (_earlier(prior) for prior in body.prior)
    yield from views.dead_letter_lines([dead_letter], history.dead_letters)
    yield from map(line_of, history.entries)


def _request(dead_letter: DeadLetter) -> RenderableType:
    if dead_letter.request is None and dead_letter.raw is None:
        at = dead_letter.origin
        where = f" That is at {at.topic}-{at.partition}@{at.offset}."
        why = "It was too large to hold its request." + ("" if dead_letter.parent else where)
        return Text(plain_line(why), "dim")
    if dead_letter.request is None:
        return Text("It holds no request; `answerbus replay export` gives its bytes.", "dim")
    return json_shown(dead_letter.request.model_dump(mode="json"))


def _earlier(prior: Prior) -> Text:
    """The dead letter's own account of an attempt whose record is gone."""
    heading = Text(f"Attempt {prior.attempt}: {failure_text(prior.failure)}")
    return Text("\n").join([heading, *_written(prior.failure)])


def _attempt(attempt: Attempt) -> Iterator[Text]:
    model = plain_line(attempt.model.model) if attempt.model else "-"
    took = "" if attempt.duration_ms is None else f", {attempt.duration_ms:,} ms"
    yield Text(f"Attempt {attempt.attempt} ({model}{took}): {attempt.outcome}", "bold")
    match attempt.failure:
        case None:
            return
        case Invalid(problems=problems):
            yield from (Text(f"  {problem_text(problem)}") for problem in problems)
            yield from _written(attempt.failure)
        case failure:
            yield Text(f"  {plain_line(failure_text(failure))}")
            yield from _written(failure)


def _written(failure: Failure) -> Iterator[Text]:
    return (Text(f"  the model wrote {line}") for line in written_text(failure).splitlines())

"""A run in progress: shown as a live tree, or as lines of JSON."""

import asyncio
import shlex
from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from typing import Self

import typer
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.live import Live
from rich.segment import Segment
from rich.text import Text

from answerbus.client import Client, Followed, NoAnswerYet
from answerbus.client.bus import Bus
from answerbus.client.connection import PUBLISH_S_MIN
from answerbus.client.errors import BusUnavailable
from answerbus.client.request_id import is_new
from answerbus.control import ApprovalRequested, ControlApplied, InputRequested
from answerbus.event import AnyOutcome
from answerbus.request import Request
from answerbus.step import Step, ToolEnded
from services.command_line import screen, workflow_command
from services.commands.kafka_away import warn
from services.commands.notices import Notices
from services.console.views.units import usd
from services.operators.runs.fold import RunFold
from services.operators.runs.rendering import RunLine, lines_of, tree_of
from services.text.counted import count_text
from services.text.escaping import json_line
from services.worker.adapters.clock import SystemClock

Show = Callable[[Followed], None]
Begin = Callable[[], None]  # called before the request is published
ID_KNOWN = timedelta(days=1)  # how long workers know ids


async def show_to_end(
    client: Client, bus: Bus, request: Request, timeout_s: float, begin: Begin, *, as_json: bool
) -> AnyOutcome:
    """As `follow_to_end`, on the standard streams, with notices about what it waits for."""
    if as_json:
        notices = Notices(bus, request, warn, has_progress=False)
        return await _show(client, notices, timeout_s, show_json, begin)
    with RunView(screen(is_data=False), request) as view:
        notices = Notices(bus, request, view.say, has_progress=False)
        return await _show(client, notices, timeout_s, view.show, begin)


async def _show(
    client: Client, notices: Notices, timeout_s: float, show: Show, begin: Begin
) -> AnyOutcome:
    def take(followed: Followed) -> None:
        notices.is_taken = True
        show(followed)

    async with notices.given():
        return await follow_to_end(client, notices.request, timeout_s, take, begin)


async def follow_to_end(
    client: Client, request: Request, timeout_s: float, show: Show, begin: Begin = lambda: None
) -> AnyOutcome:
    """Publish, and show what the run does until its outcome; raises NoAnswerYet, BusUnavailable.

    A run that was asked before with the same request is shown from its beginning.
    """
    limit, is_published = asyncio.timeout(max(timeout_s, PUBLISH_S_MIN)), False
    try:
        async with limit:
            after = since = None
            now = SystemClock().now()
            if is_new(request.request_id, int(now.timestamp() * 1_000)):
                after = await client.position(request.workflow_id)
            else:  # workers drop a copy: its outcome may be there
                since = now - ID_KNOWN
            begin()
            await client.publish(request)
            is_published = True
            limit.reschedule(asyncio.get_running_loop().time() + timeout_s)
            ids = request.request_id, request.workflow_id
            events = client.follow(*ids, after=after, since=since, request=request)
            return await _outcome(events, show)
    except TimeoutError:
        if not limit.expired():
            raise
        if is_published:
            raise NoAnswerYet(request.request_id, request.workflow_id, timeout_s) from None
        raise BusUnavailable(
            f"Kafka has not confirmed request {request.request_id} in time. Whether it was "
            f"published, `{workflow_command(request.workflow_id)}` shows."
        ) from None


async def _outcome(events: AsyncIterator[Followed], show: Show) -> AnyOutcome:
    async for followed in events:
        show(followed)
        match followed.event:
            case Step() | ToolEnded() | ApprovalRequested() | InputRequested() | ControlApplied():
                pass
            case outcome:
                return outcome
    raise RuntimeError("a run was followed, and had no end")


def interrupted_text(request: Request) -> str:
    """Ctrl-C ends the wait alone: the request goes on, and may cost as much as its budget."""
    workflow = shlex.quote(request.workflow_id)
    return (
        f"Not waiting any more. Request {request.request_id} goes on, and {_cost_text(request)}: "
        f"`{workflow_command(request.workflow_id)}` shows how far it is, "
        f"`answerbus cancel {request.request_id} --workflow {workflow} --reason …` ends it."
    )


def _cost_text(request: Request) -> str:
    budget = request.budget
    if request.agent is not None and not request.names_budget:
        return "may cost as much as the budget of its agent"
    amounts = [count_text(budget.attempts, "call")]
    if budget.tokens is not None:
        amounts.append(count_text(budget.tokens, "token"))
    if budget.micro_usd is not None:
        amounts.append(usd(budget.micro_usd))
    return f"may cost up to {', '.join(amounts)} in all"


def show_json(followed: Followed) -> None:
    """One line for a program."""
    event = followed.event.model_dump(mode="json")
    typer.echo(json_line({"position": followed.position, "event": event}))


class RunView:
    """The tree of a run on a terminal, drawn again with each event; elsewhere lines for each."""

    def __init__(self, console: Console, request: Request) -> None:
        self._console, self._fold = console, RunFold()
        self._fold.take(request)
        self._live = Live(console=console, auto_refresh=False, vertical_overflow="visible")
        self._shown = _Newest()

    def __enter__(self) -> Self:
        if self._console.is_terminal:
            self._live.start()
            self._draw()
        return self

    def __exit__(self, *raised: object) -> None:
        self._shown.is_all = True  # which nothing is drawn over any more
        self._live.stop()

    def show(self, followed: Followed) -> None:
        event = followed.event
        self._fold.take(event)
        if self._console.is_terminal:
            self._draw()
        elif isinstance(event, RunLine):
            for line in lines_of(event, self._fold.runs()):
                self._console.print(line, markup=False, highlight=False, soft_wrap=True)

    def say(self, text: str) -> None:
        """A notice above the tree."""
        wraps = self._console.is_terminal  # as the tree that is drawn again below it
        self._console.print(text, style="yellow", markup=False, soft_wrap=not wraps)

    def _draw(self) -> None:
        trees = [tree_of(run, show_content=True) for run in self._fold.runs()]
        self._shown.content = Group(*trees) if trees else Text("asked")
        self._live.update(self._shown, refresh=True)


class _Newest:
    """The last lines, where there is no room for all: a terminal draws over what it shows alone."""

    def __init__(self) -> None:
        self.content: RenderableType = ""
        self.is_all = False

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        lines = console.render_lines(self.content, options.update(height=None), pad=False)
        shown = lines if self.is_all else lines[-max(options.size.height - 1, 1) :]
        for line in shown:
            yield from line
            yield Segment.line()

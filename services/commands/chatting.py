"""Runs `answerbus chat`: reads a line, asks the agent with the conversation, shows the answer."""

import asyncio
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import typer
from pydantic import ValidationError

from answerbus.agent import AgentRef
from answerbus.budget import Budget
from answerbus.client import Client, NoAnswerYet
from answerbus.client.bus import Bus
from answerbus.client.connection import request_record
from answerbus.client.request_id import new_id
from answerbus.client.timeout import timeout_s_default
from answerbus.event import AnyOutcome
from answerbus.limits import KIB, MESSAGES_MAX
from answerbus.outcome import Result
from answerbus.problems import pointer
from answerbus.request import Context, Message, Request, TextRef
from services.command_line import bus_of, client_of, stderr, stdout
from services.commands.ask_request import agent_of
from services.commands.following import interrupted_text, show_to_end
from services.commands.show_outcome import show
from services.settings.settings import from_environment
from services.text.escaping import plain

CHAT_BYTES_MAX = 256 * KIB  # of a conversation; what was said first is left out beyond that
INSTRUCTIONS = "Answer the last message of the conversation."


@dataclass(slots=True)
class Chat:
    """The conversation so far, and how the next turn is asked.

    What the person types is trusted, as instructions are; earlier answers may repeat data.
    """

    agent: AgentRef
    workflow_id: str
    budget: Budget
    profile: str | None = None
    messages: list[Message] = field(default_factory=list)

    @classmethod
    def of(cls, agent: str, workflow_id: str | None, profile: str | None, attempts: int) -> Self:
        """As the command line says; raises typer.BadParameter."""
        try:
            budget = Budget(attempts=attempts)
            workflow = f"chat-{new_id()}" if workflow_id is None else workflow_id
            chat = cls(agent_of(agent), workflow, budget, profile)
            chat.turn(INSTRUCTIONS, new_id())
        except ValidationError as error:
            first = error.errors()[0]
            raise typer.BadParameter(f"{pointer(first['loc'])}: {first['msg']}") from None
        chat.messages.clear()
        return chat

    def turn(self, text: str, request_id: str) -> Request:
        """The request of the next turn."""
        self.messages.append(Message(role="user", content=text, trust="trusted"))
        self._forget()
        given: dict[str, Any] = {} if self.profile is None else {"profile": self.profile}
        return Request(
            request_id=request_id,
            workflow_id=self.workflow_id,
            answer_schema=TextRef(),
            context=Context(instructions=INSTRUCTIONS, messages=tuple(self.messages)),
            agent=self.agent,
            budget=self.budget,
            **given,
        )

    def take(self, outcome: AnyOutcome | None) -> bool:
        """An answer is remembered; a turn without one is not, and may be said again."""
        if isinstance(outcome, Result):
            self.messages.append(Message(role="assistant", content=str(outcome.answer)))
            return True
        self.messages.pop()
        return False

    def _forget(self) -> None:
        size = sum(len(message.content.encode()) for message in self.messages)
        while len(self.messages) > 1 and (
            size > CHAT_BYTES_MAX or len(self.messages) > MESSAGES_MAX
        ):
            size -= len(self.messages.pop(0).content.encode())


def converse(chat: Chat, config: Path | None, timeout_s: float | None, *, as_json: bool) -> bool:
    """Until the input ends; whether each turn had an answer. Raises SetUpError, BusUnavailable."""
    settings = from_environment(config).kafka
    client, bus = client_of(settings), bus_of(settings)
    stderr().print(f"Workflow {chat.workflow_id}. Ctrl-D ends the conversation.", style="dim")
    with asyncio.Runner() as runner:
        runner.run(client.__aenter__())
        try:
            is_well = True
            while (typed := _typed()) is not None:
                if text := typed.strip():
                    turn = _turn((client, bus), chat, text, timeout_s, as_json=as_json)
                    is_well = runner.run(turn) and is_well
            return is_well
        finally:
            runner.run(client.__aexit__())


async def _turn(
    clients: tuple[Client, Bus], chat: Chat, text: str, timeout_s: float | None, *, as_json: bool
) -> bool:
    client, bus = clients
    request = _request(chat, text)
    if isinstance(request, str):
        stderr().print(f"Not asked. {request}", style="red", markup=False)
        return False
    wait_s = timeout_s_default(request) if timeout_s is None else timeout_s
    outcome: AnyOutcome | None = None
    may_go_on = asyncio.Event()
    try:
        outcome = await show_to_end(client, bus, request, wait_s, may_go_on.set, as_json=as_json)
        if not as_json:
            show(outcome, stdout(), stderr())
    except NoAnswerYet:
        message = f"No answer within {wait_s:g} s; request {request.request_id} goes on."
        stderr().print(message, style="yellow", markup=False)
    except asyncio.CancelledError:  # by Ctrl-C
        if may_go_on.is_set():
            stderr().print("\n" + interrupted_text(request), style="yellow", markup=False)
        raise
    return chat.take(outcome)


def _request(chat: Chat, text: str) -> Request | str:
    """The next turn, or why the line cannot be asked.

    Python keeps bytes that are not UTF-8 as half surrogates.
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        return "This is not text in UTF-8."
    before = [*chat.messages]
    request = chat.turn(text, new_id())
    try:
        request_record(request, None)
    except ValueError as error:
        chat.messages = before  # all of them, also those that had no room beside this line
        return plain(str(error))
    return request


def _typed() -> str | None:
    """The next line; None at the end of the input."""
    if not sys.stdin.isatty():
        return sys.stdin.readline() or None
    try:
        return input("> ")
    except EOFError:
        return None

"""What `ask --follow` and `chat` show and remember, on a FakeClient."""

import asyncio
import json
import re
from io import StringIO

import pytest
import typer
from rich.console import ConsoleDimensions

from answerbus.agent import AgentRef
from answerbus.client import Followed, NoAnswerYet
from answerbus.client.errors import BusUnavailable
from answerbus.client.follow import StepEvent
from answerbus.client.request_id import new_id
from answerbus.client.testing import FakeClient, answered, dead_letter, silence
from answerbus.dead_letter import UnknownAgent
from answerbus.limits import MESSAGES_MAX, REQUEST_BYTES_MAX
from answerbus.outcome import Result
from services.command_line import PlainConsole, bus_of, screen
from services.commands import chatting, following
from services.commands.chatting import CHAT_BYTES_MAX, Chat
from services.commands.following import RunView, follow_to_end, show_json
from services.commands.notices import Notices
from services.settings.settings import KafkaSettings
from tests.unit.operators.runs.events import WORKFLOW, approval_asked, call, ended, event, step

TIMEOUT_S = 60.0
HOSTILE = "\x1b[31mred"


def a_chat() -> Chat:
    return Chat.of("support.v3", "w", None, 100)


def deliver(fake: FakeClient, *events: object) -> None:
    for one in events:
        assert isinstance(one, StepEvent)
        fake.deliver_step(one)


async def test_each_turn_is_a_run_of_one_workflow_that_knows_what_was_said() -> None:
    fake, chat = FakeClient(), a_chat()
    fake.prepare(
        answered("Good evening."), dead_letter(UnknownAgent()), answered("It was shipped.")
    )
    for number, text in enumerate(["Hello", "Lost", "Where is order 4711?"]):
        request = chat.turn(text, f"t-{number}")
        chat.take(await follow_to_end(fake, request, TIMEOUT_S, lambda _: None))

    assert {request.workflow_id for request in fake.requests} == {"w"}
    assert {request.agent for request in fake.requests} == {AgentRef(name="support", version=3)}
    last = fake.requests[-1].context.messages
    assert [(one.role, one.content, one.trust) for one in last] == [
        ("user", "Hello", "trusted"),
        ("assistant", "Good evening.", "untrusted"),
        ("user", "Where is order 4711?", "trusted"),  # the turn without an answer is not there
    ]
    assert chat.messages[-1].content == "It was shipped."


def test_what_was_said_first_is_left_out_of_a_long_conversation() -> None:
    chat = a_chat()
    for number in range(MESSAGES_MAX):
        chat.turn(f"{number} ".ljust(1_000, "x"), f"t-{number}")
        messages = chat.turn("again", f"a-{number}").context.messages

        assert sum(len(message.content) for message in messages) <= CHAT_BYTES_MAX
        assert messages[-1].content == "again"
    assert len(chat.turn("x" * CHAT_BYTES_MAX, "large").context.messages) == 1


@pytest.mark.parametrize("agent", ["no such name", ""])
def test_what_names_no_agent_is_refused_before_anything_is_asked(agent: str) -> None:
    with pytest.raises(typer.BadParameter):
        Chat.of(agent, None, None, 1)


@pytest.mark.parametrize(("workflow_id", "profile"), [("w" * 257, None), ("w", "no such name")])
def test_ids_that_no_turn_may_have_are_refused_before_anything_is_asked(
    workflow_id: str, profile: str | None
) -> None:
    with pytest.raises(typer.BadParameter):
        Chat.of("support", workflow_id, profile, 1)


async def test_a_line_that_cannot_be_asked_does_not_end_the_conversation(
    capsys: pytest.CaptureFixture[str],
) -> None:
    fake, chat = FakeClient(), a_chat()
    chat.turn("My order is 4711.", "r-1")
    before = [*chat.messages]
    bus = bus_of(KafkaSettings())
    for line in ("h\udcffllo", "x" * REQUEST_BYTES_MAX):
        assert not await chatting._turn((fake, bus), chat, line, TIMEOUT_S, as_json=True)

    said = capsys.readouterr().err.splitlines()
    assert said[0] == "Not asked. This is not text in UTF-8."
    assert said[1].startswith("Not asked. The request has 524,")
    assert (chat.messages, fake.requests) == (before, ())


@pytest.mark.parametrize("is_begun", [False, True])
async def test_a_turn_that_is_interrupted_is_said_to_go_on_once_it_may_be_published(
    *, is_begun: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def interrupted(*_: object) -> None:
        raise asyncio.CancelledError

    fake = FakeClient()
    monkeypatch.setattr(fake, "publish" if is_begun else "position", interrupted)
    monkeypatch.setattr(Notices, "_give", lambda given: asyncio.sleep(0, given.in_place.set()))
    with pytest.raises(asyncio.CancelledError):
        await chatting._turn(
            (fake, bus_of(KafkaSettings())), a_chat(), "Hello", TIMEOUT_S, as_json=True
        )

    assert (" goes on, and may cost up to" in capsys.readouterr().err) is is_begun


async def test_programs_get_a_line_for_each_event_and_people_who_wait_in_pipes_a_text(
    capsys: pytest.CaptureFixture[str],
) -> None:
    lines = {}
    for shown in ("json", "text"):
        chat = Chat.of("support.v3", WORKFLOW, None, 100)
        fake, request = FakeClient(), chat.turn(HOSTILE, "r-1")  # asked before: see is_new
        deliver(fake, step("r-1", 1), ended("r-1.call.1.0"))
        fake.prepare(answered(HOSTILE))
        if shown == "json":
            terminal = await follow_to_end(fake, request, TIMEOUT_S, show_json)
        else:
            with RunView(PlainConsole(), request) as view:
                terminal = await follow_to_end(fake, request, TIMEOUT_S, view.show)
        assert isinstance(terminal, Result)
        lines[shown] = capsys.readouterr().out.splitlines()

    events = [json.loads(line) for line in lines["json"]]
    assert [one["event"]["kind"] for one in events] == ["step", "tool_ended", "result"]
    assert all(one["position"] for one in events)
    assert lines["text"] == [
        "step 1",
        '  said "Looking it up."',
        '  orders.get_order {"order_id": "4711"} · called',
        '  orders.get_order {"order_id": "4711"} · ok {"state": "shipped"} · 31 ms',
    ]
    assert "\x1b" not in str(lines)


def test_a_pipe_gets_the_command_that_approves_a_call(capsys: pytest.CaptureFixture[str]) -> None:
    refund = call("r-1", 1, tool="orders.refund", state="awaits_approval")
    with RunView(PlainConsole(width=40), a_chat().turn("Refund it.", "r-1")) as view:
        for one in (step("r-1", 1, refund, said=[]), approval_asked("r-1.call.1.0")):
            assert isinstance(one, StepEvent)
            view.show(Followed(one, "0:0.0.0.0"))

    line = '  orders.refund {"order_id": "4711"} · awaits approval'
    approve = "    answerbus approvals approve r-1.call.1.0 --reason …"
    assert capsys.readouterr().out.splitlines() == ["step 1", line, line, approve]


def test_a_terminal_shows_the_tree() -> None:
    request = a_chat().turn("Refund it.", "r-1")
    console = PlainConsole(force_terminal=True, width=120)
    refund = call("r-1", 1, tool="orders.refund", state="awaits_approval")
    with console.capture() as capture, RunView(console, request) as view:
        for one in (step("r-1", 1, refund), approval_asked("r-1.call.1.0")):
            assert isinstance(one, StepEvent)
            view.show(Followed(one, "0:0.0.0.0"))

    shown = capture.get()
    assert "support v3 · 1 step" in shown
    assert "answerbus approvals approve r-1.call.1.0" in shown


def test_a_terminal_shows_the_newest_lines_whole_and_all_of_them_at_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    written, console = StringIO(), screen(is_data=False)
    console.file, console.size = written, ConsoleDimensions(60, 12)
    call_id = f"{'r-1' * 20}.call.9.0"
    steps = [step("r-1", n) for n in range(1, 9)]
    asking = call("r-1", 9, call_id=call_id, tool="orders.refund", state="awaits_approval")
    asked = approval_asked(call_id, request_id="r-1")
    with RunView(console, a_chat().turn("Refund it.", "r-1")) as view:
        for one in (*steps, step("r-1", 9, asking), asked):
            assert isinstance(one, StepEvent)
            begin = written.tell()
            view.show(Followed(one, "0:0.0.0.0"))
        drawn, begin = written.getvalue()[begin:], written.tell()
        view.say("Kafka is away.")
        noticed, begin = written.getvalue()[begin:], written.tell()
    at_end = written.getvalue()[begin:]

    assert "Kafka is away." in noticed
    for shown in (drawn, noticed):
        assert shown.count("\n") <= 12
        assert "step 1 " not in shown
        joined = re.sub(r"\x1b\[[0-9;]*[A-Za-z]|[│\s]", "", shown)
        assert f"answerbusapprovalsapprove{call_id}--reason…" in joined
    assert all(f"step {n} " in at_end for n in range(1, 10))


async def test_no_outcome_in_time_is_said_as_it_is() -> None:
    fake, chat = FakeClient(), a_chat()
    fake.prepare(silence())
    with pytest.raises(NoAnswerYet):
        await follow_to_end(fake, chat.turn("Hello", "t"), TIMEOUT_S, lambda _: None)
    assert not chat.take(None)
    assert chat.messages == []


async def test_what_is_said_to_go_on_is_published(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kafka has time to take the request also where the wait for its outcome has none."""
    fake, turn = FakeClient(), a_chat().turn("Hello", new_id())
    fake.prepare(silence())
    with pytest.raises(NoAnswerYet):
        await follow_to_end(fake, turn, 0, lambda _: None)
    assert [one.request_id for one in fake.requests] == [turn.request_id]

    async def published(_request: object) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(fake, "publish", published)
    monkeypatch.setattr(following, "PUBLISH_S_MIN", 0.0)
    with pytest.raises(BusUnavailable, match="has not confirmed request"):
        await follow_to_end(fake, turn, 0, lambda _: None)


def test_events_of_a_run_are_events_of_steps() -> None:
    assert isinstance(event("control_applied/nothing"), StepEvent)

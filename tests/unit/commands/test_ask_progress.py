"""What is told of a request while someone waits for its outcome."""

from io import StringIO
from typing import Any

import pytest
import typer

from answerbus.agent import AgentRef
from answerbus.budget import Budget
from answerbus.client.bus import Bus
from answerbus.client.testing import FakeClient
from answerbus.envelope import Undecodable, decode
from answerbus.event import Event
from answerbus.request import Context, Request, TextRef
from services.command_line import EXIT_CTRL_C, PlainConsole, workflow_command
from services.commands import asking
from services.commands.ask_request import AskArguments
from services.commands.following import interrupted_text
from services.commands.notices import Notices, progress_text
from tests.unit.operators.stored_examples import body_of, stored

MINE = Request(
    request_id="r-1",
    workflow_id="order-1",
    answer_schema=TextRef(),
    context=Context(instructions="Hi"),
    profile="large",
)


def event(example: str, **changes: Any) -> Event:
    found = decode(stored(example, **changes).value or b"")
    assert not isinstance(found, Undecodable), found
    return found


def account(*in_flight: tuple[str, int], opened: tuple[str, ...] = ()) -> Event:
    spend = body_of("account/busy")["in_flight"][0]
    return event(
        "account/busy",
        account_id="order-1",
        workflow_id="order-1",
        in_flight=[{**spend, "request_id": name, "attempt": n} for name, n in in_flight],
        open=[{"request_id": name, "attempts": 1} for name in opened],
    )


@pytest.mark.parametrize(
    ("seen", "text"),
    [
        (account(("r-0", 1), ("r-1", 2)), "attempt 2 is under way for profile large"),
        (account(("r-0", 1), opened=("r-1",)), "waits for its next attempt"),
        (account(("r-0", 1)), None),
        (event("account/busy"), None),
        (event("retry_request/invalid"), None),
        (event("result/text"), None),
    ],
)
def test_a_record_is_shown_if_it_is_about_the_request(seen: Event, text: str | None) -> None:
    assert progress_text(seen, MINE) == text


def test_a_retry_says_which_attempt_is_next_and_why() -> None:
    retry = event("retry_request/throttled", request_id="r-1", workflow_id=MINE.workflow_id)

    reported = progress_text(retry, MINE)
    stranger = event("retry_request/throttled", request_id="r-1", workflow_id="stranger")
    assert progress_text(stranger, MINE) is None

    assert reported
    assert reported.startswith("waits for attempt ")
    assert "since" in reported


@pytest.mark.parametrize(
    ("changes", "cost"),
    [
        ({}, "may cost up to 3 calls in all"),
        (
            {"budget": Budget(attempts=5, tokens=20_000, micro_usd=250_000)},
            "may cost up to 5 calls, 20,000 tokens, $0.25 in all",
        ),
        (
            {"budget": Budget(attempts=2, micro_usd=4_000)},
            "may cost up to 2 calls, $0.0040 in all",
        ),
        ({"agent": AgentRef(name="support")}, "may cost as much as the budget of its agent"),
    ],
)
def test_ctrl_c_names_the_request_its_cost_and_how_to_end_it(
    changes: dict[str, Any], cost: str
) -> None:
    assert interrupted_text(MINE.model_copy(update={"workflow_id": "a b", **changes})) == (
        f"Not waiting any more. Request r-1 goes on, and {cost}: "
        "`answerbus workflow 'a b'` shows how far it is, "
        "`answerbus cancel r-1 --workflow 'a b' --reason …` ends it."
    )


def test_an_id_that_begins_as_an_option_is_no_option_of_the_command() -> None:
    assert workflow_command("-x y") == "answerbus workflow -- '-x y'"
    assert workflow_command("a") == "answerbus workflow a"


@pytest.mark.parametrize(
    ("is_connected", "said"), [(False, "Nothing is published."), (True, " goes on, and may cost")]
)
def test_ctrl_c_says_that_a_request_goes_on_only_once_it_may_be_published(
    *,
    is_connected: bool,
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    fake = FakeClient()

    async def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(fake, "ask_request", interrupted)
    if not is_connected:
        monkeypatch.setattr(FakeClient, "__aenter__", interrupted)
    monkeypatch.setattr(asking, "client_of", lambda *_: fake)

    with pytest.raises(typer.Exit) as raised:
        asking.ask_once(AskArguments("Why?"), None, None, 60, how="wait", as_json=False)
    assert raised.value.exit_code == EXIT_CTRL_C
    assert said in capsys.readouterr().err


async def test_a_long_text_leaves_room_for_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    text = f"No connection to Kafka at {','.join(['kafka.example:9092'] * 5)}."

    async def told(given: Notices) -> None:
        given.say(text)
        given.in_place.set()

    monkeypatch.setattr(Notices, "_give", told)
    written = StringIO()
    console = PlainConsole(file=written, force_terminal=True, color_system=None, width=60)
    async with asking._waiting_shown(Bus("localhost:9092", "answerbus", {}), MINE, console):
        pass

    assert "0:00:00 No connection" in written.getvalue()

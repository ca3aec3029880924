"""Tries the agents of the demo stack with the real model, through the whole bus, turn by turn."""

import json
from collections.abc import AsyncGenerator, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from answerbus.agent import AgentRef
from answerbus.budget import Budget
from answerbus.call_outcome import CallOk
from answerbus.client import Client, NoAnswerYet
from answerbus.client.bus import Bus
from answerbus.outcome import Result
from answerbus.request import Context, Request, TextRef
from answerbus.step import ToolEnded
from answerbus.topics import PREFIX_DEFAULT, STEPS
from infra.local_model.report import Report
from infra.stack import Place, start_stack
from infra.stack.commands import launch_tool_server
from services.commands.chatting import Chat
from services.operators.adapters.reader import reading
from services.operators.records.decoded import decoded
from tests.model_survey.agent_trials import AGENTS, Case, EndedCall, Trial, has_worked

TOOLSET = "tests.model_survey.agent_trials:weather"
ATTEMPTS = 20
WORKER_STOP_S = 2.0
TOOLS_STOP_S = 10.0
TURN_LIMIT_S = 600.0  # a busy machine writes a few tokens a second


@dataclass(frozen=True, slots=True)
class AgentRow:
    """How one trial ended: verdicts and counts, no text of the model."""

    id: str
    case: Case
    worked: bool
    outcome: str
    steps: int
    made: int
    repeats: int
    failed: int


def as_line(row: AgentRow) -> str:
    """One JSON line."""
    return json.dumps(asdict(row))


def read(path: Path) -> list[AgentRow]:
    """Rows of earlier runs; nothing where there is no file."""
    lines = path.read_text().splitlines() if path.exists() else []
    return [AgentRow(**json.loads(line)) for line in lines]


@contextmanager
def stack_with_agents(folder: Path, report: Report) -> Iterator[str]:
    """The stack of `make up` with more agents; gives the broker's address. Raises SetupError."""
    place = Place(folder, workers=1, drain_s=WORKER_STOP_S, profiles=AGENTS)
    with ExitStack() as running:
        stack = start_stack(place, report.say, report)
        running.callback(stack.stop)
        tools = launch_tool_server("weather", TOOLSET, place.config, folder)
        running.callback(tools.stop, TOOLS_STOP_S)
        yield stack.bootstrap_servers


async def tried(bootstrap_servers: str, trials: Iterable[Trial]) -> AsyncGenerator[AgentRow, None]:
    """One after the other: the model is one."""
    bus = Bus(bootstrap_servers, PREFIX_DEFAULT, {})
    async with Client(bootstrap_servers) as client:
        for trial in trials:
            answer, outcome, steps = await _conversation(client, trial)
            calls = await _calls_of(bus, trial.id)
            yield row_of(trial, answer, outcome, steps, calls)


def row_of(
    trial: Trial, answer: str | None, outcome: str, steps: int, calls: Sequence[EndedCall]
) -> AgentRow:
    """The verdict on a trial."""
    made = [call for call in calls if not call.is_repeat]
    return AgentRow(
        trial.id,
        trial.case,
        has_worked(trial, answer, calls),
        outcome,
        steps,
        len(made),
        len(calls) - len(made),
        sum(call.kind != "ok" or not call.success for call in made),
    )


async def _conversation(client: Client, trial: Trial) -> tuple[str | None, str, int]:
    """The last answer, how the last turn ended, and the steps of all turns."""
    chat = Chat(AgentRef(name=trial.agent), trial.id, Budget(attempts=ATTEMPTS * len(trial.turns)))
    answer, outcome, steps = None, "none", 0
    for number, text in enumerate(trial.turns):
        request = _turn(chat, trial, text, f"{trial.id}.{number}")
        try:
            found = await client.ask_request(request, timeout_s=TURN_LIMIT_S)
        except NoAnswerYet:
            return None, "none in time", steps
        steps += found.run.steps if found.run else 0
        answer = str(found.answer) if isinstance(found, Result) else None
        outcome = found.kind
        if len(trial.turns) > 1:
            chat.take(found)
    return answer, outcome, steps


def _turn(chat: Chat, trial: Trial, text: str, request_id: str) -> Request:
    """As `answerbus chat` asks for it, or `answerbus ask` where nothing comes after it."""
    if len(trial.turns) > 1:
        return chat.turn(text, request_id)
    return Request(
        request_id=request_id,
        workflow_id=trial.id,
        answer_schema=TextRef(),
        context=Context(instructions=text),
        agent=chat.agent,
        budget=chat.budget,
    )


async def _calls_of(bus: Bus, workflow_id: str) -> list[EndedCall]:
    calls = list[EndedCall]()
    async with reading(bus, (STEPS,)) as reader:
        async for batch in reader.to_end():
            events = (decoded(stored).event for stored in batch)
            ends = (event for event in events if isinstance(event, ToolEnded))
            calls += (_ended(end) for end in ends if end.workflow_id == workflow_id)
    return calls


def _ended(event: ToolEnded) -> EndedCall:
    if not isinstance(event.outcome, CallOk):
        return EndedCall(event.tool, event.outcome.kind)
    value, is_repeat = event.outcome.value, event.outcome.same_as is not None
    success = not isinstance(value, dict) or value.get("success") is not False
    return EndedCall(event.tool, "ok", is_repeat, success)

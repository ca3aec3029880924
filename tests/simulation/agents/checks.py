"""What must hold of a history with runs, beside what the auditor finds in its records."""

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cached_property

from answerbus.topics import (
    APPROVALS,
    ATTEMPTS,
    STEPS,
    TOOL_RESULTS,
    TOPICS,
)
from tests.chaos.audit.record import Record
from tests.chaos.audit.run_records import ASK_PERSON, CHILD_TOOLS
from tests.simulation.agents.history import RunHistory
from tests.simulation.agents.model import CANARY
from tests.simulation.agents.setting import (
    ASKING_TOOLS,
    ONCE_TOOLS,
    TOOL_CANARY,
    Json,
)
from tests.simulation.agents.tool_servers import cost_of
from tests.simulation.own_audit import breaks, stored

CALLS = "tools.orders"
OWN_TOOLS = CHILD_TOOLS | {ASK_PERSON}  # no server has them
HANDED_OVER = timedelta(seconds=5)  # from a result to the end of its call, undisturbed


@dataclass(frozen=True, slots=True)
class Reported:
    """A record that can be read, with its body."""

    record: Record
    body: Json

    @property
    def at(self) -> datetime:
        """When it was appended."""
        return self.record.timestamp


@dataclass(frozen=True)
class RunReport:
    """What committed records say of runs, and what tools and model noted."""

    history: RunHistory
    records: Sequence[Record]
    events: dict[str, list[Reported]] = field(default_factory=lambda: defaultdict(list))  # by kind

    def __post_init__(self) -> None:
        for record in self.records:
            if record.value and record.topic in {STEPS.name, CALLS}:
                body = json.loads(record.value)
                self.events[body["kind"]].append(Reported(record, body))

    @cached_property
    def answers(self) -> dict[str, list[Json]]:
        """By call the answers of people that counted."""
        found: dict[str, list[Json]] = defaultdict(list)
        for applied in self.events["control_applied"]:
            if applied.body["effect"] == "answered":
                found[applied.body["control"]["call_id"]].append(applied.body["control"])
        return found

    @cached_property
    def ended(self) -> dict[str, list[Reported]]:
        """The ends of each call."""
        found: dict[str, list[Reported]] = defaultdict(list)
        for text in self.events["tool_ended"]:
            found[text.body["call_id"]].append(text)
        return found

    @cached_property
    def results(self) -> dict[str, datetime]:
        """When the first result came that its own server had said of a call."""
        reported, found = self.history.tools.said, dict[str, datetime]()
        for record in self.records:
            body = json.loads(record.value or b"{}") if record.topic == TOOL_RESULTS.name else {}
            if body.get("kind") == "tool_result" and body["token"] in reported:
                found.setdefault(body["call_id"], record.timestamp)
        return found

    @cached_property
    def settled(self) -> dict[tuple[str, int], datetime]:
        """When the outcome of each attempt was written."""
        attempts = (record for record in self.records if record.topic == ATTEMPTS.name)
        bodies = ((json.loads(record.value or b"{}"), record.timestamp) for record in attempts)
        return {(body["request_id"], body["attempt"]): at for body, at in bodies}

    @cached_property
    def asked(self) -> dict[str, Json]:
        """The calls of committed steps, by id."""
        steps = self.events["step"]
        return {call["call_id"]: call for step in steps for call in step.body["calls"]}

    def tool_of(self, call_id: str) -> str:
        """The tool of a call, without its toolset; empty if no committed step asks for it."""
        return str(self.asked.get(call_id, {}).get("tool", "")).rpartition(".")[2]


def _has_result(call: Json, outcome: Json) -> bool:
    """Whether a call of a step succeeded by the result of its own server."""
    is_own = call["tool"] not in OWN_TOOLS and "same_as" not in outcome
    return is_own and outcome["kind"] == "ok"


def complaints(history: RunHistory, records: Sequence[Record]) -> Iterator[str]:
    """What does not hold."""
    reported = RunReport(history, records)
    for check in CHECKS:
        yield from check(reported)


def _audited(reply: RunReport) -> Iterator[str]:
    """A1, A5, A12: operators' own audit finds no break, also in chains of steps."""
    yield from (f"A12 {found}" for found in breaks(stored(reply.records, (*TOPICS, STEPS))))


def _nothing_again(reply: RunReport) -> Iterator[str]:
    """A2: no committed step is asked for again."""
    steps: dict[str, list[Reported]] = defaultdict(list)
    for step in reply.events["step"]:
        steps[step.body["request_id"]].append(step)
    for prompt in reply.history.model.asked:
        settled_at = reply.settled.get((prompt.request_id, prompt.attempt))
        taken = sum(
            step.body["attempt"] < prompt.attempt
            # One that no model was asked for has no attempt: what was settled by then was before.
            and not (step.body.get("composed") and settled_at and settled_at <= step.at)
            for step in steps[prompt.request_id]
        )
        shown = sum(turn.role == "assistant" for turn in prompt.turns)
        if shown < taken:
            name = f"{prompt.request_id}.{prompt.attempt}"
            yield f"A2 {name} asks again: it tells {shown} of {taken} steps"


def _questions(reply: RunReport) -> Iterator[str]:
    """A15: each question is asked once, and answered once, by a person and not an application."""
    requested = Counter(
        (one.body["call_id"], one.body.get("number", 1)) for one in reply.events["input_requested"]
    )
    yield from (f"A15 {name} was asked {n} times" for name, n in requested.items() if n > 1)
    for applied in reply.events["control_applied"]:
        is_answer = applied.body["effect"] == "answered"
        if is_answer and f".{APPROVALS.name}." not in applied.body["event_id"]:
            yield f"A15 {applied.body['control']['call_id']} was answered by an application"
    for name, answers in reply.answers.items():
        numbers = Counter(answer.get("number", 1) for answer in answers)
        for number, count in numbers.items():
            if count > requested[name, number]:
                yield f"A15 {name}: question {number} was answered {count} times"


def _answers(reply: RunReport) -> Iterator[str]:
    """A15: what counts as an answer fits its schema, and ends the question of a model."""
    for name, answers in reply.answers.items():
        for value in (answer["value"] for answer in answers):
            is_declined = value is None and reply.tool_of(name) in ASKING_TOOLS
            if not (is_declined or (isinstance(value, dict) and "s" in value)):
                yield f"A15 {name} was answered outside of its schema: {value}"
    for name, call in reply.asked.items():
        outcome = reply.ended[name][0].body["outcome"] if name in reply.ended else {}
        if call["tool"] != ASK_PERSON or "same_as" in outcome:
            continue
        given = [{"kind": "ok", "value": one["value"]} for one in reply.answers.get(name, ())]
        if given != [outcome] and (given or outcome.get("kind") == "ok"):
            yield f"A15 {name} ended as {outcome}, and was answered {given}"


def _going_on(reply: RunReport) -> Iterator[str]:
    """A17: a call goes on from a state of its server, is not made again, and is answered once."""
    begun: dict[str, datetime] = {}
    given: dict[str, list[Json]] = defaultdict(list)
    for event in reply.events["tool_continue"]:
        name = event.body["call"]["call_id"]
        begun[name] = min(event.at, begun.get(name, event.at))
        if event.body["state"] not in reply.history.tools.kept[name]:
            yield f"A17 {name} goes on from a state that its server did not keep"
        if "given" in event.body:
            given[name].append(event.body["given"]["value"])
    for call in reply.events["tool_call"]:
        name = call.body["call_id"]
        if name in begun and call.at > begun[name]:
            yield f"A17 {name} was made again, and its server had kept a state"
    for name, values in given.items():
        answers = [answer["value"] for answer in reply.answers.get(name, ())]
        if any(value not in answers for value in values):
            yield f"A17 {name} was given what no person answered"
        if reply.tool_of(name) in ONCE_TOOLS and len(values) > len(answers):
            yield f"A17 {name} was given {len(values)} answers, and has {len(answers)}"


def _in_time(reply: RunReport) -> Iterator[str]:
    """A2: a result that came in time ends its call, also if its worker was disturbed."""
    for name, ends in reply.ended.items():
        # A result counts only from who went on with it last, and had not asked.
        if reply.tool_of(name) in ASKING_TOOLS or ends[0].body["outcome"]["kind"] != "timed_out":
            continue
        came = reply.results.get(name)
        if came and came >= reply.history.stable_from and ends[0].at > came + HANDED_OVER:
            yield f"A2 {name} timed out at {ends[0].at}, and its result came at {came}"


def _hidden(reply: RunReport) -> Iterator[str]:
    """A9: no prompt has a thought, and nothing of a tool is in the text of the system."""
    for prompt in reply.history.model.asked:
        name = f"{prompt.request_id}.{prompt.attempt}"
        if any(CANARY in turn.text for turn in prompt.turns):
            yield f"A9 the prompt of {name} tells a thought"
        if TOOL_CANARY in prompt.system:
            yield f"A9 the system text of {name} has a description of a tool"


def _charged(reply: RunReport) -> Iterator[str]:
    """G13: a call that its tool server ended is charged what it costs, and no other call is."""
    for name, ends in reply.ended.items():
        if name not in reply.asked:
            continue  # reported by `_calls`
        outcome, charged = ends[0].body["outcome"], ends[0].body.get("micro_usd", 0)
        if charged != cost_of(name) and (charged or _has_result(reply.asked[name], outcome)):
            yield f"G13 {name} was charged {charged}, and its tool costs {cost_of(name)}"


CHECKS: Sequence[Callable[[RunReport], Iterable[str]]] = (
    _audited,
    _nothing_again,
    _questions,
    _answers,
    _going_on,
    _in_time,
    _charged,
    _hidden,
)

"""A run: an immutable value of its definition, its steps, and the states of their tool calls."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import cached_property
from itertools import islice
from types import MappingProxyType
from typing import Any, Literal

from answerbus.agent import AgentId, RunSummary
from answerbus.budget import Spent, Usage
from answerbus.call_outcome import CallOutcome
from answerbus.continued_call import ToolQuestion
from answerbus.edited_args import EditedArgs
from answerbus.limits import NAME_CHARS_MAX, STEP_CALLS_MAX
from answerbus.private.runs import (
    AgentDefinition,
    AskedCall,
    Composition,
    Link,
    Reconciliation,
    RunCallRecord,
    RunStepRecord,
    ToolDefinition,
)
from answerbus.request import Fact
from answerbus.resumed_run import ResumedCall
from answerbus.step import StepCall
from services.worker.core.json_schema.keywords import JsonObject
from services.worker.core.run.agents import agent_id
from services.worker.core.run.run_message import RunMessage

RunStage = Literal["working", "waiting", "awaits_approval"]
DELEGATE = "delegate"  # the tool whose calls ask children; no toolset has one of that name
PROPOSE = "propose"  # the same, of steps that no model was asked for
CHILD_TOOLS = frozenset({DELEGATE, PROPOSE})
ASK_PERSON = "ask_person"  # the tool whose calls people answer
OWN_TOOLS = CHILD_TOOLS | {ASK_PERSON}  # which no tool server has
PROGRESS_SHARE = 0.1  # of a time-out: progress is written at most as often

# Cached properties that hold for the run after any change, too.
_LASTING = frozenset({"agent", "composition", "tools", "described_tools", "messages"})
_NOTHING: Mapping[str, RunCallRecord] = MappingProxyType({})


def described_tools(definition: AgentDefinition) -> tuple[Fact, ...]:
    """Descriptions are written by the owner of the tool: data behind a fence, and no rule."""
    return tuple(map(_described, definition.tools))


def _described(tool: ToolDefinition) -> Fact:
    texts: JsonObject = {"description": tool.card.description}
    if args := _descriptions(tool.card.args_schema):
        texts["args"] = args
    # As a prompt shows a JSON value, written once for all steps.
    name = f"tool {tool.name}"[:NAME_CHARS_MAX]
    return Fact(name=name, value=json.dumps(texts, ensure_ascii=False, indent=1))


def _descriptions(schema: JsonObject) -> JsonObject:
    properties = schema.get("properties")
    found: JsonObject = {}
    for name, property_ in properties.items() if isinstance(properties, dict) else ():
        text = property_.get("description") if isinstance(property_, dict) else None
        if isinstance(text, str):
            found[name] = text
    return found


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A tool call of a step, and its state; `record` once it has left its first state."""

    n: int
    place: int
    asked: AskedCall
    record: RunCallRecord | None

    @property
    def outcome(self) -> CallOutcome | None:
        """How it ended, if it has."""
        return self.asked.outcome or (self.record.outcome if self.record else None)

    @property
    def edited(self) -> EditedArgs | None:
        """The arguments that a person gave it in the place of its model's."""
        return self.record.edited if self.record else None

    @property
    def args(self) -> JsonObject:
        """Those that it is made with."""
        return self.edited.args if self.edited else self.asked.args

    @property
    def args_digest(self) -> str:
        """Of the arguments that it is made with."""
        return self.edited.args_digest if self.edited else self.asked.args_digest

    @property
    def is_open(self) -> bool:
        return self.outcome is None

    @property
    def reconciliation(self) -> Reconciliation | None:
        """How far its fate is found out, if it was delivered and has no result."""
        return self.record.reconciliation if self.record else None

    @property
    def is_called(self) -> bool:
        """Whether a tool server may be at work on it."""
        is_sent = self.record is not None and self.record.deliveries > 0
        return self.is_open and is_sent and not self._is_reconciled and not self.awaits_input

    @property
    def is_known_to_server(self) -> bool:
        """Whether a tool server works on it, or keeps something for it."""
        return self.is_called or (self.record is not None and self.record.state is not None)

    @property
    def _is_reconciled(self) -> bool:
        """Whether no server is asked any more: a person is, or it is to be delivered again."""
        return self.reconciliation is not None and self.reconciliation.state != "asking"

    @property
    def next_delivery(self) -> int:
        """The number of the delivery that it would be sent in."""
        return self.record.deliveries + 1 if self.record else 1

    @property
    def after_input(self) -> int:
        """The number of the last question that its tool asked; deliveries count from there."""
        return self.record.inputs_asked if self.record else 0

    @property
    def asks_child(self) -> bool:
        """Whether it is answered by a child, and by no tool server."""
        return self.asked.tool in CHILD_TOOLS

    @property
    def awaits_input(self) -> bool:
        """Whether a person is asked for its result, or by its tool."""
        return self.is_open and (self.asked.tool == ASK_PERSON or self.asks is not None)

    @property
    def asks(self) -> ToolQuestion | None:
        """The question of its tool to a person."""
        return self.record.asks if self.record else None

    @property
    def awaits_person(self) -> bool:
        """Whether it goes on only by a person."""
        return self.awaits_approval or self.awaits_input

    @property
    def awaits_approval(self) -> bool:
        """Whether a person is asked whether it may run."""
        if self.reconciliation is not None and self.reconciliation.state == "asks_person":
            return self.is_open
        is_approved = self.record is not None and self.record.approved is not None
        return self.is_open and self.asked.needs_approval and not is_approved

    @property
    def is_waiting(self) -> bool:
        """Whether it may be called, and its turn has not come."""
        return self.is_open and not self.is_called and not self.awaits_person


@dataclass(frozen=True)
class Run:
    """See the module. `link` is the end of the chain of what the run wrote; None: it wrote nothing.

    The first `resumed` steps were taken by another run, which this one goes on from (new_run.py).
    Only the last step can have open calls: the next one is asked for when they have ended.
    """

    definition: AgentDefinition
    steps: tuple[RunStepRecord, ...] = ()
    calls: Mapping[str, RunCallRecord] = field(default_factory=lambda: _NOTHING)  # by call id
    link: Link | None = None
    resumed: int = 0

    @property
    def own_steps(self) -> tuple[RunStepRecord, ...]:
        return self.steps[self.resumed :]

    @cached_property
    def agent(self) -> AgentId:
        """The agent as events name it."""
        return agent_id(self.definition)

    @cached_property
    def composition(self) -> Composition | None:
        """That of the definition, which looks for it among all its members."""
        return self.definition.composition

    @cached_property
    def tools(self) -> Mapping[str, ToolDefinition]:
        """Those of the definition, by name."""
        return {tool.name: tool for tool in self.definition.tools}

    @cached_property
    def described_tools(self) -> tuple[Fact, ...]:
        """What its model is shown of them."""
        return described_tools(self.definition)

    @cached_property
    def messages(self) -> dict[tuple[str | None, str], RunMessage]:
        """The messages about steps and ended calls that are written so far; see transcript.py."""
        return {}

    def calls_of(self, step: RunStepRecord) -> Iterator[ToolCall]:
        """The calls of a step, in their order."""
        for place, asked in enumerate(step.calls):
            yield ToolCall(step.n, place, asked, self.calls.get(asked.call_id))

    def made_calls_of(self, step: RunStepRecord) -> Iterator[ToolCall]:
        """Without those beyond the limit, which were not made, and may be many."""
        return islice(self.calls_of(step), STEP_CALLS_MAX)

    @cached_property
    def open(self) -> tuple[ToolCall, ...]:
        """The calls that have not ended."""
        if not self.steps:
            return ()
        return tuple(call for call in self.calls_of(self.steps[-1]) if call.is_open)

    @property
    def stage(self) -> RunStage:
        """The thing it waits for, if any: a person before all else."""
        if any(call.awaits_person for call in self.open):
            return "awaits_approval"
        return "waiting" if self.open else "working"

    def open_call(self, call_id: str) -> ToolCall | None:
        return next((call for call in self.open if call.asked.call_id == call_id), None)

    def call_of_last_step(self, call_id: str) -> ToolCall | None:
        """A call of the last step by its id, open or not."""
        calls = self.calls_of(self.steps[-1]) if self.steps else ()
        return next((call for call in calls if call.asked.call_id == call_id), None)

    def timeout_of(self, call: ToolCall) -> timedelta:
        """How long a tool server may be silent about the call."""
        return timedelta(seconds=self.tools[call.asked.tool].card.timeout_s)

    def due_after_progress(
        self, call: ToolCall, now: datetime, deadline: datetime
    ) -> datetime | None:
        """Until when a call that is still worked on has time; None if no time is to be added.

        A little more is added than it may be silent, so that progress that comes all the time is
        written ten times in a time-out.
        """
        timeout = self.timeout_of(call)
        due_at = min(now + timeout * (1 + PROGRESS_SHARE), deadline)
        is_at_work = call.record is not None and call.reconciliation is None
        known = call.record.due_at if call.record and is_at_work else None
        # A call that its server goes on with has longer until the first progress (events.py).
        return None if known and abs(due_at - known) < timeout * PROGRESS_SHARE else due_at

    @property
    def before_last_step(self) -> "Run":
        """The run as it was when that step was taken."""
        return replace(self, steps=self.steps[:-1])

    @cached_property
    def due_at(self) -> datetime | None:
        """When the time of the first of its calls is over."""
        moments = (call.record.due_at for call in self.open if call.record)
        return min((moment for moment in moments if moment), default=None)

    @cached_property
    def has_read_untrusted(self) -> bool:
        """Whether a tool that is not trusted gave it anything, or is described by others."""
        trusted = {tool.name for tool in self.definition.tools if tool.trusted} | {ASK_PERSON}
        return any(
            tool.written_by == "mcp" and not tool.trusted for tool in self.definition.tools
        ) or any(
            call.outcome and call.asked.tool not in trusted
            for step in self.steps
            for call in self.calls_of(step)
        )

    def with_call(self, record: RunCallRecord, call_id: str) -> "Run":
        """The run with another state of one call; one that ended before does not end the chain."""
        known = [link for link in (self.link, record.link) if link]
        link = max(known, key=lambda link: link.number, default=None)
        return self._changed(calls={**self.calls, call_id: record}, link=link)

    def with_step(self, step: RunStepRecord) -> "Run":
        """The run with one more step."""
        return self._changed(steps=(*self.steps, step), link=step.link)

    def _changed(self, **changes: Any) -> "Run":
        """What follows from the definition alone is not worked out for each change."""
        after = replace(self, **changes)
        for name in _LASTING & self.__dict__.keys():
            after.__dict__[name] = self.__dict__[name]
        return after

    @property
    def reserved_minimum(self) -> Spent:
        """What its children leave to it, for one step more."""
        known = self.steps[-1].floor if self.steps else Spent()
        return known.model_copy(update={"attempts": 1})

    @property
    def spent_by_children(self) -> int:
        """The counted attempts of children that have ended, and of all below them.

        Also of those that its tools asked.
        """
        return sum(record.spent for record in self.calls.values())

    @property
    def record_keys(self) -> Iterator[tuple[int, int | None]]:
        """Each step, and each place in it of a call with a record of its own."""
        for step in self.own_steps:
            yield step.n, None
            for call in self.calls_of(step):
                if call.record:
                    yield step.n, call.place

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes of its tools for readers of the outcome."""
        return tuple(note for record in self.calls.values() for note in record.notes)

    def summary(self, since: Usage) -> RunSummary:
        """What it came to; `since` is what attempts since its last step have used."""
        used = [since]
        for step in self.own_steps:
            used += [step.usage, step.retried] if step.retried else [step.usage]
        used += [record.usage for record in self.calls.values() if record.usage]
        return RunSummary(
            agent=self.agent,
            steps=len(self.own_steps),
            tool_calls=sum(len(step.calls) for step in self.own_steps),
            children=sum(record.children for record in self.calls.values()),
            usage=Usage.of_all(used),
        )


def named(call: AskedCall | ResumedCall | StepCall) -> dict[str, Any]:
    """The identity of a call: its id, its tool and its arguments."""
    return {
        "call_id": call.call_id,
        "tool": call.tool,
        "args": call.args,
        "args_digest": call.args_digest,
    }

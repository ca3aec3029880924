"""The history of a dead run, read from its steps: where a replay resumes; pure."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from answerbus import json_text
from answerbus.dead_letter import DeadLetter
from answerbus.envelope import decode
from answerbus.resumed_run import ResumedCall, ResumedRun, ResumedStep, RunResumed
from answerbus.step import Step, ToolEnded
from services.operators.audit.step_chain import StepChain
from services.operators.dead_letters.effects import Deliveries, effects_of
from services.operators.records.stored import Stored
from services.records.resumed_steps import proves
from services.text.digest import record_digest


@dataclass(frozen=True, slots=True)
class PastRun:
    """The steps of a run that died; `effects` are calls of tools with effects that may have run.

    `fault` says why its steps cannot be gone on from, if so.
    """

    resumed: ResumedRun | None = None
    effects: tuple[ResumedCall, ...] = ()
    fault: str | None = None


NO_PAST = PastRun()


def past_run(
    dead_letter: DeadLetter,
    records: Sequence[Stored],
    deliveries: Deliveries,
    below: Sequence[Stored] = (),
    resumptions: Collection[RunResumed] = (),
) -> PastRun:
    """What the request took over, and what the run itself added; `records` are of its steps.

    Each record must follow the one before it, and all that the dead letter counts must exist: of a
    step that is missing, a tool would run again. `below` are the steps of runs that it asked. What
    its request took over must be in `resumptions`: any publisher can write steps into a request.
    """
    request = dead_letter.request
    if request is None or request.agent is None:
        return NO_PAST
    before = request.resumed
    if before and not any(proves(event, request) for event in resumptions):
        return PastRun(fault="no operator has sent the steps that it went on from")
    reading = _Reading(before)
    for stored in sorted(records, key=lambda one: (one.at_ms, one.partition, one.offset)):
        if fault := reading.take(stored):
            return PastRun(fault=fault)
    counted = (dead_letter.run.steps, dead_letter.run.tool_calls) if dead_letter.run else (0, 0)
    if missing := reading.chain.ended_otherwise(*counted):
        return PastRun(fault=f"its dead letter counts {missing}")
    resumed = reading.resumed(dead_letter.request_id or "")
    return PastRun(resumed, effects_of(resumed, below, deliveries))


@dataclass(slots=True)
class _Reading:
    before: ResumedRun | None
    steps: list[Step] = field(default_factory=list)
    ends: dict[str, ToolEnded] = field(default_factory=dict)
    number: int = 0
    chain: StepChain = field(init=False)

    def __post_init__(self) -> None:
        self.chain = StepChain()
        if self.before is not None:
            taken_over = len(self.before.steps)
            self.chain = StepChain(head=self.before.previous, taken_over=taken_over)
            self.number = self.before.number

    def take(self, stored: Stored) -> str | None:
        """The next record of the run; gives what is wrong with it."""
        parsed = json_text.parse(stored.value or b"")
        event = decode(stored.value, stored.headers)
        if not isinstance(event, Step | ToolEnded) or not isinstance(parsed, json_text.Parsed):
            return None  # what people are asked and say
        body = parsed.value if isinstance(parsed.value, dict) else {}
        if event.hash != record_digest(body):
            return f"{event.event_id} was changed"
        if wrong := self.chain.follow(event, was_cut=False):
            return f"{event.event_id} does not follow: expected {wrong[1]}"
        self.number += 1
        if isinstance(event, Step):
            self.steps.append(event)
        else:
            self.ends[event.call_id] = event
        return None

    def resumed(self, request_id: str) -> ResumedRun | None:
        """All steps, each call with its end."""
        if not self.steps:
            return self.before
        return ResumedRun(
            request_id=request_id,
            steps=(
                *(self.before.steps if self.before else ()),
                *(resumed_step(step, self.ends) for step in self.steps),
            ),
            previous=self.chain.head or "",
            number=self.number,
        )


def resumed_step(step: Step, ends: Mapping[str, ToolEnded]) -> ResumedStep:
    """A step with the end of each of its calls, which must be there."""
    calls = tuple(
        ResumedCall(
            call_id=call.call_id,
            tool=call.tool,
            args=call.args,
            args_digest=call.args_digest,
            outcome=ends[call.call_id].outcome,
            edited=ends[call.call_id].edited,
        )
        for call in step.calls
    )
    return ResumedStep(attempt=step.attempt, said=step.said, calls=calls)

"""From the events of one workflow, in any order, to the trees of its runs; pure."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from answerbus.agent import ParentId
from answerbus.attempt import Attempt
from answerbus.budget import AccountState, Spent, Usage
from answerbus.control import (
    Approval,
    ApprovalRequested,
    Cancel,
    ControlApplied,
    Input,
    InputRequested,
)
from answerbus.dead_letter import ConflictingId, DeadLetter
from answerbus.envelope import Undecodable
from answerbus.event import AnyOutcome, Event
from answerbus.limits import DEPTH_MAX
from answerbus.outcome import Refusal, Result, UnvalidatedResult
from answerbus.request import Request
from answerbus.step import CallState, Step, StepCall, ToolEnded
from services.operators.records.ended_as import ended_as
from services.operators.records.stored import RetryEnded
from services.operators.records.within_limits import amount, moved
from services.operators.runs.tree import CallNode, RunNode, RunState, StepNode

NESTED_MAX = 2 * DEPTH_MAX  # what says that it is deeper is separate: any may claim it


def spent_by_attempt(
    attempts: Mapping[int, Attempt], steps: Iterable[Step], outcome: AnyOutcome | None
) -> Mapping[int, Spent]:
    """By the number of the attempt. Without its own event, taken from a step or from the end."""
    called = (step for step in steps if step.composed != "propose")  # which has no attempt
    by_attempt = {step.attempt: _spent(step.usage) for step in called}
    match outcome:
        case Result() | UnvalidatedResult() | Refusal():
            by_attempt[outcome.attempt] = _spent(outcome.usage)
        case _:
            pass
    return {**by_attempt, **{number: _charged(one) for number, one in attempts.items()}}


def spent_since(spent: Mapping[int, Spent], before: int, attempt: int) -> Spent:
    """By a step: its attempt, and those that failed since the step `before`."""
    return total(one for number, one in spent.items() if before < number <= attempt)


def total(parts: Iterable[Spent]) -> Spent:
    attempts = tokens = micro_usd = 0
    for part in parts:
        attempts += part.attempts
        tokens += part.tokens
        micro_usd += part.micro_usd
    return Spent(attempts=attempts, tokens=tokens, micro_usd=micro_usd)


def _charged(attempt: Attempt) -> Spent:
    """As its account was: a call that timed out at its worst case."""
    charged = attempt.charged
    if charged is None or not attempt.counted:  # it is of an earlier version, or costs nothing
        return _spent(attempt.usage, counted=attempt.counted)
    return Spent(attempts=1, tokens=amount(charged.tokens), micro_usd=amount(charged.micro_usd))


def _spent(usage: Usage, *, counted: bool = True) -> Spent:
    tokens = amount(usage.input_tokens or 0) + amount(usage.output_tokens or 0)
    return Spent(attempts=int(counted), tokens=tokens, micro_usd=amount(usage.micro_usd or 0))


@dataclass(slots=True)
class _Found:
    """The known facts about one request."""

    request: Request | None = None
    began: datetime | None = None
    parent: ParentId | None = None
    steps: dict[int, Step] = field(default_factory=dict)  # by their numbers
    call_ids: set[str] = field(default_factory=set)
    attempts: dict[int, Attempt] = field(default_factory=dict)
    last: int = 0  # the number of its last attempt
    outcome: AnyOutcome | None = None
    cancel: ControlApplied | None = None

    @property
    def ended_at(self) -> datetime | None:
        """By its last attempt where its outcome is no longer kept; None while it is open."""
        match self.outcome:
            case None:
                last = self.attempts.get(self.last)
                if last is None or ended_as(last) is None:
                    return None
                return moved(last.started_at, last.duration_ms or 0)
            case DeadLetter() as letter:
                return letter.at
            case outcome:
                return outcome.finished_at

    @property
    def is_run(self) -> bool:
        asked = self.request is not None and self.request.agent is not None
        ran = self.outcome is not None and self.outcome.run is not None
        return bool(self.steps) or asked or ran


@dataclass(slots=True)
class RunFold:
    """Takes each event once; an event that is given twice counts once."""

    _requests: dict[str, _Found] = field(default_factory=lambda: defaultdict(_Found))
    _ended: dict[str, ToolEnded] = field(default_factory=dict)
    _approvals: dict[str, ApprovalRequested] = field(default_factory=dict)
    _questions: dict[str, InputRequested] = field(default_factory=dict)
    _decisions: dict[str, ControlApplied] = field(default_factory=dict)
    _answers: dict[str, ControlApplied] = field(default_factory=dict)
    _invalid: dict[str, ControlApplied] = field(default_factory=dict)

    def take(self, event: Event | RetryEnded | Undecodable, at: datetime | None = None) -> None:
        """One event, and Kafka's time of its record."""
        match event:
            case Request():
                found = self._requests[event.request_id]
                found.request = found.request or event
                found.began = found.began or at
                found.parent = found.parent or event.parent_id
            case Step():
                self._take_step(self._requests[event.request_id], event)
            case Attempt():
                found = self._requests[event.request_id]
                found.attempts.setdefault(event.attempt, event)
                found.last = max(found.last, event.attempt)
            case ToolEnded():
                self._ended.setdefault(event.call_id, event)
            case ApprovalRequested():
                known = self._approvals.get(event.call_id)
                if known is None or _place(known) < _place(event):
                    self._approvals[event.call_id] = event
            case InputRequested():
                self._take_question(event)
            case ControlApplied():
                self._take_control(event)
            case Result() | UnvalidatedResult() | Refusal() | DeadLetter():
                self._take_outcome(event)
            case _:
                pass

    def runs(self) -> tuple[RunNode, ...]:
        """Those that no other run asked, in the order in which they began."""
        children: dict[str, list[str]] = defaultdict(list)
        roots: list[str] = []
        for request_id, found in self._requests.items():
            call_id = self._parent_call(request_id)
            if call_id is not None:
                children[call_id].append(request_id)
            elif found.is_run:
                roots.append(request_id)
        return tuple(self._run(name, children) for name in self._in_order(roots))

    def _take_step(self, found: _Found, event: Step) -> None:
        if event.n not in found.steps:
            found.steps[event.n] = event
            found.call_ids.update(call.call_id for call in event.calls)

    def _take_question(self, event: InputRequested) -> None:
        known = self._questions.get(event.call_id)
        if known is None or known.number < event.number:
            self._questions[event.call_id] = event

    def _take_control(self, event: ControlApplied) -> None:
        match event.control:
            case Approval(call_id=call_id) | Input(call_id=call_id) if event.effect == "invalid":
                known = self._invalid.get(call_id)
                if known is None or known.at <= event.at:
                    self._invalid[call_id] = event
            case Approval(call_id=call_id) if event.effect in ("approved", "denied"):
                known = self._decisions.get(call_id)
                if known is None or _delivery(known) < _delivery(event):
                    self._decisions[call_id] = event
            case Input(call_id=call_id) if event.effect == "answered":
                known = self._answers.get(call_id)
                if known is None or _number(known) < _number(event):
                    self._answers[call_id] = event
            case Cancel() if event.effect == "cancelled":
                for request_id in event.requests:
                    found = self._requests[request_id]
                    found.cancel = found.cancel or event
            case _:
                pass

    def _take_outcome(self, event: AnyOutcome) -> None:
        if event.request_id is None or (
            isinstance(event, DeadLetter) and isinstance(event.cause, ConflictingId)
        ):
            return
        found = self._requests[event.request_id]
        found.outcome = found.outcome or event
        found.parent = found.parent or event.parent

    def _parent_call(self, request_id: str) -> str | None:
        """The call that it was asked by, if that is in a tree of this workflow."""
        own, name, depth = self._requests[request_id].parent, request_id, 0
        parent = own
        while parent is not None:
            depth += 1
            above = self._requests.get(parent.request_id)
            if above is None or depth > NESTED_MAX or parent.call_id not in above.call_ids:
                return None
            name, parent = parent.request_id, above.parent
        return own.call_id if own and self._requests[name].is_run else None

    def _in_order(self, names: Iterable[str]) -> list[str]:
        def began(name: str) -> tuple[bool, float, str]:
            moment = _began(self._requests[name])
            return moment is None, moment.timestamp() if moment else 0.0, name

        return sorted(names, key=began)

    def _run(self, request_id: str, children: dict[str, list[str]]) -> RunNode:
        found = self._requests[request_id]
        spent = spent_by_attempt(found.attempts, found.steps.values(), found.outcome)
        steps = tuple(self._steps(found, spent, children))
        calls = [call for step in steps for call in step.calls]
        tools = (Spent(micro_usd=amount(call.micro_usd or 0)) for call in calls)
        own = total((*spent.values(), *tools))
        below = (child.whole for call in calls for child in call.children)
        state, since = _state(found, steps)
        cancel = found.cancel.control if found.cancel else None
        return RunNode(
            request_id=request_id,
            agent=_agent(found),
            state=state,
            began=_began(found),
            since=since,
            own=own,
            whole=total((own, *below)),
            account=_account(found),
            steps=steps,
            parent=found.parent if self._parent_call(request_id) else None,
            outcome=found.outcome,
            cancel=cancel if isinstance(cancel, Cancel) else None,
            taken_over=_taken_over(found),
            attempts=tuple(found.attempts[number] for number in sorted(found.attempts)),
        )

    def _steps(
        self, found: _Found, spent: Mapping[int, Spent], children: dict[str, list[str]]
    ) -> Iterator[StepNode]:
        before = 0
        for step in (found.steps[n] for n in sorted(found.steps)):
            number = 0 if step.composed == "propose" else step.attempt  # it has no attempt
            attempt = found.attempts.get(number)
            calls = tuple(self._call(found, call, children) for call in step.calls)
            took_ms = attempt.duration_ms if attempt else None
            took = spent_since(spent, before, number)
            yield StepNode(
                step.n,
                step.attempt,
                step.at,
                took_ms,
                step.said,
                calls,
                took,
                step.composed,
                step.chosen,
            )
            before = number

    def _call(self, found: _Found, call: StepCall, children: dict[str, list[str]]) -> CallNode:
        ended = self._ended.get(call.call_id)
        approval, question = self._approvals.get(call.call_id), self._questions.get(call.call_id)
        decision, answer = self._decisions.get(call.call_id), self._answers.get(call.call_id)
        status: CallState = call.state
        if ended is not None or found.ended_at is not None:
            status = "ended"
        elif approval and (decision is None or _delivery(decision) < _place(approval)):
            status = "awaits_approval"  # also of a call that was made before
        elif question and (answer is None or _number(answer) < question.number):
            status = "awaits_input"
        elif answer or (status == "awaits_approval" and decision is not None):
            status = "called"
        return CallNode(
            call_id=call.call_id,
            tool=call.tool,
            args=call.args,
            status=status,
            outcome=ended.outcome if ended else None,
            took_ms=ended.took_ms if ended else None,
            micro_usd=ended.micro_usd if ended else None,
            ended_at=ended.at if ended else None,
            reconciled=ended is not None and ended.reconciled,
            edited=ended.edited if ended else None,
            approval=approval,
            question=question,
            decision=answer or decision,
            invalid=self._invalid.get(call.call_id),
            policy=call.policy,
            children=tuple(
                self._run(name, children) for name in self._in_order(children.get(call.call_id, ()))
            ),
        )


def _place(event: ApprovalRequested | Approval) -> tuple[int, int]:
    """The delivery to decide about: the last question before it, and its number since then."""
    return event.after_input, event.delivery


def _delivery(decision: ControlApplied) -> tuple[int, int]:
    """The delivery of a call that a person decided about."""
    return _place(decision.control) if isinstance(decision.control, Approval) else (0, 0)


def _number(decision: ControlApplied) -> int:
    """The question of a call that a person has answered."""
    return decision.control.number if isinstance(decision.control, Input) else 0


def _began(found: _Found) -> datetime | None:
    if found.began is not None:
        return found.began
    return min((step.at for step in found.steps.values()), default=None)


def _taken_over(found: _Found) -> int:
    resumed = found.request.resumed if found.request else None
    return len(resumed.steps) if resumed else 0


def _agent(found: _Found) -> str | None:
    """As it was in the run, else as it was asked for."""
    run = found.outcome.run if found.outcome else None
    agent = next(iter(found.steps.values())).agent if found.steps else run and run.agent
    if agent:
        return f"{agent.name} v{agent.version}"
    asked = found.request.agent if found.request else None
    if asked is None:
        return None
    return asked.name if asked.version is None else f"{asked.name} v{asked.version}"


def _account(found: _Found) -> AccountState | None:
    if found.outcome is not None and found.outcome.account is not None:
        return found.outcome.account
    return found.steps[max(found.steps)].account if found.steps else None


def _state(found: _Found, steps: tuple[StepNode, ...]) -> tuple[RunState, datetime | None]:
    if found.ended_at is not None:
        return "ended", found.ended_at
    open_calls = [call for step in steps for call in step.calls if call.status != "ended"]
    for state in ("awaits_approval", "awaits_input"):
        if awaited := [call.awaits for call in open_calls if call.status == state]:
            return state, min((it.at for it in awaited if it), default=steps[-1].at)
    if open_calls:
        return "waiting", steps[-1].at
    ends = (call.ended_at for step in steps for call in step.calls if call.ended_at)
    begun = steps[-1].at if steps else _began(found)
    return "working", max(ends, default=begun)

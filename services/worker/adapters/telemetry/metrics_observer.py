"""Counts the work of lanes."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime
from typing import assert_never

from answerbus.attempt import Attempt
from answerbus.budget import Usage
from answerbus.call_outcome import CallOk
from answerbus.dead_letter import DeadLetter
from answerbus.event import AnyOutcome
from answerbus.limits import REPEATS_COUNTED
from answerbus.outcome import RetryRequest
from answerbus.registry import Registry
from answerbus.request import ContractRef, InlineRef, Request, TextRef
from answerbus.step import ToolEnded
from services.telemetry import metrics
from services.telemetry.counts import Counts
from services.worker.core.attempt.reply import kind_of
from services.worker.core.budget.account import Spend
from services.worker.core.outcome.call import Call
from services.worker.core.outcome.decision import Decision, NextStep, Wait, attempt_outcome
from services.worker.core.request.lane_request import LaneRequest
from services.worker.core.run.repeats import repeats_at
from services.worker.core.schema.resolved import Accepted
from services.worker.ports.observer import Observer

UNKNOWN = "unknown"  # a name in a request that is not known here, or a value that no request gave
OTHERS, NONE = "(others)", "(none)"


class MetricsObserver(Observer):
    """See observer.Observer. What requests name freely becomes a label only if it is known here."""

    def __init__(
        self, profiles: Collection[str], registry: Registry, labels: Collection[str] = ()
    ) -> None:
        self.counts = Counts()
        self._label_values: Mapping[str, set[str]] = {label: {NONE} for label in labels}
        self.know(profiles)
        self._contracts = {(c.name, c.version): f"{c.name}.v{c.version}" for c in registry}

    def know(self, profiles: Collection[str]) -> None:
        """These may be labels from now on."""
        self._profiles = frozenset(profiles)

    def admitted(self, lane_request: LaneRequest) -> None:
        self.counts.add(metrics.RECEIVED, *self._kind(lane_request.request))

    def rejected(self, dead_letter: DeadLetter) -> None:
        self.counts.add(metrics.TERMINALS, dead_letter.kind, UNKNOWN, UNKNOWN)
        self._count_dead_letter(dead_letter, UNKNOWN)

    def settled(self, call: Call, decision: Decision, now: datetime) -> None:
        counts, profile = self.counts, call.plan.profile.name
        failure = call.failure.kind if call.failure else "none"
        counted = "yes" if call.is_counted else "no"
        counts.add(metrics.ATTEMPTS, attempt_outcome(decision), failure, counted, profile)
        if call.plan.hops:
            hop = call.plan.hops[-1]
            counts.add(metrics.FALLBACK_CALLS, hop.instead_of, hop.profile, hop.because.kind)
        counts.observe(
            metrics.CALL_DURATION, kind_of(call.reply), profile, value=call.duration_ms / 1000
        )
        self._used(call.lane_request.request, call.usage, profile)
        if isinstance(decision, NextStep) or _has_chosen(call):
            self.stepped(call.lane_request)
        if not isinstance(decision, Wait | RetryRequest | NextStep):
            self._ended(call.lane_request, decision, now)
        if isinstance(decision, DeadLetter):
            self._count_dead_letter(decision, profile)

    def released(self, lane_request: LaneRequest, spend: Spend) -> None:  # noqa: ARG002 - for traces
        _, profile = self._kind(lane_request.request)
        self.counts.add(metrics.ATTEMPTS, "released", "none", "no", profile)

    def dead_lettered(self, lane_request: LaneRequest, dead_letter: DeadLetter) -> None:
        _, profile = self._kind(lane_request.request)
        self._ended(lane_request, dead_letter, dead_letter.at)
        self._count_dead_letter(dead_letter, profile)

    def call_ended(self, _: LaneRequest, tool: str, end: ToolEnded) -> None:
        is_repeat = isinstance(end.outcome, CallOk) and end.outcome.same_as is not None
        self.counts.add(metrics.TOOL_CALLS, tool, "repeated" if is_repeat else end.outcome.kind)
        if end.took_ms is not None:
            self.counts.observe(metrics.TOOL_CALL_DURATION, tool, value=end.took_ms / 1000)

    def opened(self, partition: int, left_over: Sequence[Attempt]) -> None:
        self.counts.add(metrics.OPENINGS, str(partition))
        for attempt in left_over:
            failure = attempt.failure.kind if attempt.failure else "none"
            counted = "yes" if attempt.counted else "no"
            self.counts.add(metrics.ATTEMPTS, attempt.outcome, failure, counted, UNKNOWN)

    def committed(self, took_s: float) -> None:
        self.counts.add(metrics.TRANSACTIONS, "committed")
        self.counts.observe(metrics.COMMIT_DURATION, value=took_s)

    def lost(self) -> None:
        self.counts.add(metrics.TRANSACTIONS, "lost")

    def stepped(self, lane_request: LaneRequest) -> None:
        if lane_request.run is None:
            return
        agent = lane_request.run.definition.name
        self.counts.add(metrics.RUN_STEPS, agent)
        if repeats_at(lane_request.run.steps) >= REPEATS_COUNTED:
            self.counts.add(metrics.RUN_REPEATS, agent)

    def _used(self, request: Request, usage: Usage, profile: str) -> None:
        counts = self.counts
        if usage.input_tokens:
            counts.add(metrics.TOKENS, "input", profile, by=usage.input_tokens)
        if usage.output_tokens:
            counts.add(metrics.TOKENS, "output", profile, by=usage.output_tokens)
        if usage.cached_tokens:
            counts.add(metrics.CACHED_TOKENS, profile, by=usage.cached_tokens)
        if usage.micro_usd:
            contract, _ = self._kind(request)
            counts.add(metrics.SPENT, contract, profile, by=usage.micro_usd)
            for label, value in self._labels(request):
                counts.add(metrics.LABEL_SPENT, label, value, by=usage.micro_usd)

    def _count_dead_letter(self, dead_letter: DeadLetter, profile: str) -> None:
        failure = dead_letter.prior[-1].failure.kind if dead_letter.prior else "none"
        self.counts.add(metrics.DEAD_LETTERS, dead_letter.cause.kind, failure, profile)

    def _ended(self, lane_request: LaneRequest, outcome: AnyOutcome, now: datetime) -> None:
        self.counts.add(metrics.TERMINALS, outcome.kind, *self._kind(lane_request.request))
        for label, value in self._labels(lane_request.request):
            self.counts.add(metrics.LABEL_OUTCOMES, label, value, outcome.kind)
        took_s = max((now - lane_request.origin.timestamp).total_seconds(), 0.0)
        self.counts.observe(metrics.REQUEST_DURATION, outcome.kind, value=took_s)
        if lane_request.request.agent is not None:
            agent = lane_request.run.definition.name if lane_request.run else UNKNOWN
            cause = outcome.cause.kind if isinstance(outcome, DeadLetter) else "none"
            self.counts.add(metrics.RUNS_ENDED, agent, outcome.kind, cause)
            self.counts.observe(metrics.RUN_DURATION, agent, value=took_s)

    def _labels(self, request: Request) -> Iterator[tuple[str, str]]:
        """The values of a request to count, never more than so many."""
        for label, known in self._label_values.items():
            value = request.labels.get(label, NONE)
            if value not in known and len(known) > metrics.LABEL_VALUES_MAX:
                value = OTHERS
            else:
                known.add(value)
            yield label, value

    def _kind(self, request: Request) -> tuple[str, str]:
        profile = request.profile if request.profile in self._profiles else UNKNOWN
        match request.answer_schema:
            case ContractRef(name=name, version=version):
                return self._contracts.get((name, version), UNKNOWN), profile
            case InlineRef() | TextRef():
                return request.answer_schema.kind, profile
            case _:
                assert_never(request.answer_schema)


def _has_chosen(call: Call) -> bool:
    """Whether its answer was a choice among proposals, which is the last step of its run."""
    return isinstance(call.checked, Accepted) and call.checked.chosen is not None

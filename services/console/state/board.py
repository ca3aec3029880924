"""Activity by the minute, as a fold of records: outcomes, calls, spending, waiting; pure."""

from collections import Counter, OrderedDict
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import TypeVar, assert_never

from answerbus.request_key import RequestKey
from services.console.state.heaviest import Dropped, Heaviest
from services.console.state.minute import (
    OUTCOMES,
    ContractCounts,
    Minute,
    ProfileCounts,
    SpendCounts,
    added,
)
from services.console.state.schema_labels import SchemaLabels
from services.console.state.spend_table import Amounts, SpendTable
from services.console.views.units import KEPT_MINUTES, MINUTE_MS
from services.operators.records.event_parts import FailureSummary
from services.operators.records.event_summary import (
    AnswerSummary,
    AttemptSummary,
    BudgetNearlySpentSummary,
    DeadLetterSummary,
    DismissedSummary,
    PrivateSummary,
    RefusalSummary,
    ReplayedSummary,
    RequestSummary,
    RetrySummary,
    UnvalidatedResultSummary,
)
from services.operators.records.run_summary import RunEventSummary
from services.operators.records.stored import RetryEnded
from services.operators.records.summary import RecordSummary, UndecodableRecord

OPEN_MINUTES = 2  # the newest, in which records are still expected
SUMS_MAX = 1_000
UNHEALTHY_MINUTES = 10
UNHEALTHY_CALLS_MIN = 3
STATUSES = range(100, 600)  # of HTTP: whatever else a record says is none
AWAY = frozenset({"unavailable", "timed_out"})
STEP = "step"  # the outcome of a call that ended a step of a run
_ANSWERED = {"result", "unvalidated_result", "refusal", STEP}
NO_ANSWER = "no_answer"  # a whole reply without one: the provider was not away
_READ_BY_THE_MODEL = {"malformed", "invalid", "truncated", "refused", NO_ANSWER}
RUNS_MAX = 20_000  # whose last call is remembered
OTHERS = "(others)"
NONE = "–"
LOST = "(lost with its worker)"  # the schema and the model of a call are then unknown
CONTRACTS_KEPT, PROFILES_KEPT, MODELS_KEPT = 50, 30, 100
LABELS_KEPT, LABEL_NAMES_KEPT, WORKFLOWS_KEPT = 1_000, 50, 1_000
KeyT = TypeVar("KeyT", bound=Hashable)
CountsT = TypeVar("CountsT", ContractCounts, ProfileCounts, SpendCounts)


def _kind_of(failure: FailureSummary | None) -> str | None:
    if failure is None:
        return None
    is_reply = failure.kind == "unavailable" and (failure.status or 0) // 100 == 2
    return NO_ANSWER if is_reply else failure.kind


@dataclass(frozen=True, slots=True)
class OpenRetry:
    """A request that waits for a retry; `since_ms` is when it was put there first."""

    profile: str
    failure: str
    partition: int
    since_ms: int


class OpenRetries:
    """As the retries topic lists them."""

    def __init__(self) -> None:
        self._waits: dict[RequestKey, OpenRetry] = {}

    def take(self, event: RetrySummary, partition: int, at_ms: int) -> None:
        """A request is to be tried again."""
        key = RequestKey.of(event)
        before = self._waits.get(key)
        since_ms = before.since_ms if before else at_ms
        failure = event.failure.kind
        wait = OpenRetry(event.request.profile, failure, partition, since_ms)
        self._waits[key] = wait

    def end(self, event: RetryEnded, partition: int) -> None:
        """It is no longer tried; a version before had one request of an id in a partition."""
        if event.workflow_id is not None:
            self._waits.pop(RequestKey(event.workflow_id, event.request_id), None)
            return
        for key, wait in list(self._waits.items()):
            if key.request_id == event.request_id and wait.partition == partition:
                del self._waits[key]

    def __len__(self) -> int:
        return len(self._waits)

    @property
    def by_profile(self) -> Counter[tuple[str, str]]:
        """How many, by profile and failure."""
        return Counter((wait.profile, wait.failure) for wait in self._waits.values())

    @property
    def oldest(self) -> Mapping[int, OpenRetry]:
        """The one that has waited longest, by partition."""
        oldest: dict[int, OpenRetry] = {}
        for wait in self._waits.values():
            known = oldest.get(wait.partition)
            if known is None or wait.since_ms < known.since_ms:
                oldest[wait.partition] = wait
        return oldest


class LastSteps:
    """Runs whose last call ended a step: the call after it is not a repair."""

    def __init__(self) -> None:
        self._runs: OrderedDict[RequestKey, None] = OrderedDict()

    def is_repair(self, event: AttemptSummary) -> bool:
        """Whether the call follows one of its request that gave nothing to go on with."""
        key = RequestKey.of(event)
        follows_step = key in self._runs
        self._runs.pop(key, None)
        if event.outcome == STEP:
            self._runs[key] = None
            if len(self._runs) > RUNS_MAX:
                self._runs.popitem(last=False)
        return event.attempt > 1 and not follows_step


@dataclass(frozen=True, slots=True)
class Window:
    """Some minutes, added up in equal steps for a plot, and as a whole."""

    first_ms: int
    step_minutes: int
    steps: tuple[Minute, ...]
    total: Minute

    @property
    def outcomes(self) -> Mapping[str, tuple[int, ...]]:
        """How many of each kind, by step."""
        return {kind: tuple(step.outcomes[kind] for step in self.steps) for kind in OUTCOMES}

    @property
    def end_ms(self) -> int:
        """The moment after its last minute."""
        return self.first_ms + len(self.steps) * self.step_minutes * MINUTE_MS

    @property
    def minutes(self) -> tuple[int, int]:
        """The number of the first minute, and of the one after the last."""
        return self.first_ms // MINUTE_MS, self.end_ms // MINUTE_MS

    @property
    def starts_ms(self) -> tuple[int, ...]:
        step_ms = self.step_minutes * MINUTE_MS
        return tuple(self.first_ms + n * step_ms for n in range(len(self.steps)))


class Board:
    """Keeps KEPT_MINUTES; what is older is not counted."""

    def __init__(self) -> None:
        self.schema_labels = SchemaLabels()
        self.waits = OpenRetries()
        self._steps = LastSteps()
        self._minutes: dict[int, Minute] = {}
        self._newest = 0
        self._sums: dict[tuple[int, int], Minute] = {}
        self.labels = SpendTable[tuple[str, str]](LABELS_KEPT)
        self.label_names = SpendTable[str](LABEL_NAMES_KEPT)
        self.workflows = SpendTable[str](WORKFLOWS_KEPT)
        self._contracts = Heaviest[str](CONTRACTS_KEPT)
        self._profiles = Heaviest[str](PROFILES_KEPT)
        self._models = Heaviest[tuple[str, str]](MODELS_KEPT)  # with the digest of the schema
        self._missed: dict[str, tuple[int, int]] = {}  # calls in a row without a word, and when

    def take(self, record: RecordSummary) -> None:
        minute, number = self._minute(record.at_ms), record.at_ms // MINUTE_MS
        match record.event:
            case (AnswerSummary() | DeadLetterSummary()) as event:
                self._terminal(event, minute, number)
            case AttemptSummary() as event:
                if event.is_call:
                    self._attempt(event, minute, record.at_ms)
            case RetrySummary() as event:
                minute.retries += 1
                self.waits.take(event, record.place.partition, record.at_ms)
            case RetryEnded() as event:
                self.waits.end(event, record.place.partition)
            case ReplayedSummary():
                minute.replayed += 1
            case DismissedSummary():
                minute.dismissed += not record.event.undone
            case RequestSummary() | UndecodableRecord() | PrivateSummary() | RunEventSummary():
                pass
            case BudgetNearlySpentSummary():
                pass
            case other:
                assert_never(other)

    @property
    def waiting(self) -> Counter[tuple[str, str]]:
        """Requests that are still being retried, by profile and failure."""
        return self.waits.by_profile

    def window(self, end_ms: int, minutes: int, steps: int) -> Window:
        """The `minutes` up to `end_ms` in `steps` equal steps; `steps` divides `minutes`."""
        step = minutes // steps
        first = end_ms // MINUTE_MS - minutes + 1
        found = tuple(self._sum(first + i * step, step) for i in range(steps))
        return Window(first * MINUTE_MS, step, found, added(found))

    def _sum(self, first: int, count: int) -> Minute:
        """These minutes as one; remembered once they are over, since pages ask again and again."""
        known = self._sums.get((first, count))
        if known is None:
            minutes = range(first, first + count)
            known = added(self._minutes[n] for n in minutes if n in self._minutes)
            if first + count <= self._newest - OPEN_MINUTES:
                self._sums[first, count] = known
        return known

    def unhealthy(self, now_ms: int) -> tuple[str, ...]:
        """Profiles whose last calls had no word, or all of the last UNHEALTHY_MINUTES no answer."""
        recent = self.window(now_ms, UNHEALTHY_MINUTES, 1).total.profiles
        unanswered = {
            name
            for name, calls in recent.items()
            if calls.made >= UNHEALTHY_CALLS_MIN and not calls.answered
        }
        first_ms = now_ms - UNHEALTHY_MINUTES * MINUTE_MS
        away = {
            name
            for name, (count, at_ms) in self._missed.items()
            if count >= UNHEALTHY_CALLS_MIN and at_ms > first_ms
        }
        return tuple(sorted(unanswered | away))

    def _terminal(
        self, event: AnswerSummary | DeadLetterSummary, minute: Minute, number: int
    ) -> None:
        minute.outcomes[event.kind] += 1
        label = event.answer_schema.label if event.answer_schema else NONE
        counts = _of(minute.contracts, label, ContractCounts)
        if isinstance(event, DeadLetterSummary):
            minute.causes[event.cause.kind] += 1
            counts.died[event.failure or event.cause.kind] += 1
            self._rejection(event, minute)
        else:
            self.schema_labels.take(event.answered_schema)
            _count_answer(counts, event)
        dropped = self._contracts.take(label, 1, number)
        self._fold(dropped, lambda minute: minute.contracts, OTHERS, ContractCounts)

    def _rejection(self, event: DeadLetterSummary, minute: Minute) -> None:
        """The status by which a provider turned a request down: attempts do not have it."""
        status, profile = event.cause.status, event.request.profile if event.request else ""
        if status is not None and status in STATUSES and profile in minute.profiles:
            minute.profiles[profile].statuses[status] += 1

    def _attempt(self, event: AttemptSummary, minute: Minute, at_ms: int) -> None:
        unknown = LOST if event.outcome == "unknown" else NONE
        pair = (event.schema_digest or unknown, event.model.name if event.model else unknown)
        used_micro_usd, is_repair = event.used_micro_usd, self._steps.is_repair(event)
        amounts = Amounts(1, event.usage.tokens, used_micro_usd, event.charged_micro_usd)
        spent = _of(minute.spend, pair, SpendCounts)
        spent.calls += 1
        spent.tokens += amounts.tokens
        spent.micro_usd += used_micro_usd
        spent.charged_micro_usd += amounts.charged_micro_usd
        spent.repairs += is_repair
        spent.repairs_micro_usd += used_micro_usd if is_repair else 0
        spent.cache_saved_micro_usd += event.usage.cache_saved_micro_usd or 0
        spent.outcomes[event.outcome] += 1
        number = at_ms // MINUTE_MS
        dropped = self._models.take(pair, amounts.weight, number)
        self._fold(dropped, lambda minute: minute.spend, (OTHERS, OTHERS), SpendCounts)
        self._count_names(event, amounts, number)
        if event.model is not None:
            self._call(event, event.model.profile, minute, at_ms)

    def _count_names(self, event: AttemptSummary, amounts: Amounts, number: int) -> None:
        """By workflow and label, where there are too many names to keep all."""
        if number <= self._newest - KEPT_MINUTES:
            return
        self.workflows.take(event.workflow_id, amounts, number)
        for pair in event.label_pairs:
            self.labels.take(pair, amounts, number)
            self.label_names.take(pair[0], amounts, number)

    def _call(self, event: AttemptSummary, profile: str, minute: Minute, at_ms: int) -> None:
        failure = _kind_of(event.failure)
        missed = self._missed.get(profile, (0, 0))[0] + 1 if failure in AWAY else 0
        self._missed[profile] = (missed, at_ms)
        calls = _of(minute.profiles, profile, ProfileCounts)
        calls.made += 1
        calls.answered += event.outcome in _ANSWERED or failure in _READ_BY_THE_MODEL
        if failure is not None:
            calls.failures[failure] += 1
            status = event.failure.status if event.failure else None
            if status is not None and status in STATUSES:
                calls.statuses[status] += 1
            elif failure in AWAY:
                calls.silent += 1
        if event.duration_ms is not None:
            calls.took.add(event.duration_ms)
        dropped = self._profiles.take(profile, 1, at_ms // MINUTE_MS)
        self._fold(dropped, lambda minute: minute.profiles, OTHERS, ProfileCounts)
        for name, _ in dropped:
            self._missed.pop(name, None)

    def _fold(
        self,
        dropped: Dropped[KeyT],
        counts_of: Callable[[Minute], dict[KeyT, CountsT]],
        others: KeyT,
        new: type[CountsT],
    ) -> None:
        """Count those that are no longer held among the others, in each of their minutes."""
        if not dropped:
            return
        self._sums.clear()
        for name, held in dropped:
            for number in range(max(held.first, self._newest - KEPT_MINUTES), held.last + 1):
                counts = counts_of(self._minutes[number]) if number in self._minutes else {}
                if (found := counts.pop(name, None)) is not None:
                    _of(counts, others, new).add(found)

    def _minute(self, at_ms: int) -> Minute:
        """Where to count: what is too long ago is counted and forgotten."""
        number = at_ms // MINUTE_MS
        if number <= self._newest - KEPT_MINUTES:
            return Minute()
        if number < self._newest - OPEN_MINUTES or len(self._sums) > SUMS_MAX:
            self._sums.clear()
        found = self._minutes.get(number)
        if found is None:
            found = self._minutes[number] = Minute()
            self._newest = max(self._newest, number)
            for old in [n for n in self._minutes if n <= self._newest - KEPT_MINUTES]:
                del self._minutes[old]
        return found


def _of(counts: dict[KeyT, CountsT], key: KeyT, new: type[CountsT]) -> CountsT:
    found = counts.get(key)
    if found is None:
        found = counts[key] = new()
    return found


def _count_answer(counts: ContractCounts, event: AnswerSummary) -> None:
    match event:
        case RefusalSummary():
            counts.refused += 1
        case UnvalidatedResultSummary():
            counts.unvalidated += 1
        case _:
            steps = event.run.steps if event.run else 0
            is_first = (event.attempt or 1) <= steps + 1
            counts.first_try += is_first
            counts.mended += not is_first
    if event.took_ms is not None:
        counts.took.add(event.took_ms)

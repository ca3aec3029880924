"""The counts of one minute, by contract, profile, model and label, and sums of minutes; pure."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from services.console.state.histogram import Histogram

OUTCOMES = ("result", "unvalidated_result", "refusal", "dead_letter")


@dataclass(slots=True)
class ContractCounts:
    """The outcomes of requests for one contract; `died` counts its dead letters by problem."""

    first_try: int = 0
    mended: int = 0
    unvalidated: int = 0
    refused: int = 0
    died: Counter[str] = field(default_factory=Counter)
    took: Histogram = field(default_factory=Histogram)  # from the request to its answer

    @property
    def dead(self) -> int:
        """All of its dead letters."""
        return self.died.total()

    @property
    def ended(self) -> int:
        return self.first_try + self.mended + self.unvalidated + self.refused + self.dead

    def add(self, other: "ContractCounts") -> None:
        self.first_try += other.first_try
        self.mended += other.mended
        self.unvalidated += other.unvalidated
        self.refused += other.refused
        self.died.update(other.died)
        self.took.merge(other.took)


@dataclass(slots=True)
class ProfileCounts:
    """Calls of one profile; `answered` are those in which the model said something.

    `statuses` are those of HTTP, of calls that failed by one; `silent` are calls without a reply.
    """

    made: int = 0
    answered: int = 0
    failures: Counter[str] = field(default_factory=Counter)
    statuses: Counter[int] = field(default_factory=Counter)
    silent: int = 0
    took: Histogram = field(default_factory=Histogram)

    def add(self, other: "ProfileCounts") -> None:
        self.made += other.made
        self.answered += other.answered
        self.failures.update(other.failures)
        self.statuses.update(other.statuses)
        self.silent += other.silent
        self.took.merge(other.took)


@dataclass(slots=True)
class SpendCounts:
    """What calls used, as their providers reported it, and what accounts were charged for them.

    Attempts that were released before their call are in none of these. `repairs` are the calls that
    were not the first of their request. What caches saved is less than nothing where writing to
    them cost more.
    """

    calls: int = 0
    tokens: int = 0
    micro_usd: int = 0
    charged_micro_usd: int = 0
    repairs: int = 0
    repairs_micro_usd: int = 0
    cache_saved_micro_usd: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)

    def add(self, other: "SpendCounts") -> None:
        self.calls += other.calls
        self.tokens += other.tokens
        self.micro_usd += other.micro_usd
        self.charged_micro_usd += other.charged_micro_usd
        self.repairs += other.repairs
        self.repairs_micro_usd += other.repairs_micro_usd
        self.cache_saved_micro_usd += other.cache_saved_micro_usd
        self.outcomes.update(other.outcomes)


@dataclass(slots=True)
class Minute:
    """By Kafka's time of the records. Spend is by schema digest and model."""

    outcomes: Counter[str] = field(default_factory=Counter)
    retries: int = 0
    causes: Counter[str] = field(default_factory=Counter)  # of dead letters
    replayed: int = 0
    dismissed: int = 0
    contracts: dict[str, ContractCounts] = field(default_factory=dict)
    profiles: dict[str, ProfileCounts] = field(default_factory=dict)
    spend: dict[tuple[str, str], SpendCounts] = field(default_factory=dict)

    @property
    def spent(self) -> SpendCounts:
        total = SpendCounts()
        for counts in self.spend.values():
            total.add(counts)
        return total

    def add(self, other: "Minute") -> None:
        self.outcomes.update(other.outcomes)
        self.retries += other.retries
        self.causes.update(other.causes)
        self.replayed += other.replayed
        self.dismissed += other.dismissed
        for name, contract in other.contracts.items():
            self.contracts.setdefault(name, ContractCounts()).add(contract)
        for name, profile in other.profiles.items():
            self.profiles.setdefault(name, ProfileCounts()).add(profile)
        for pair, spent in other.spend.items():
            self.spend.setdefault(pair, SpendCounts()).add(spent)


def added(minutes: Iterable[Minute]) -> Minute:
    """All of them as one."""
    total = Minute()
    for minute in minutes:
        total.add(minute)
    return total

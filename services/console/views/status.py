"""One status for the top of every page: how bad it is, and why in one sentence each; pure."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Literal

from services.console.views.words import age_text, clock_text, count_text

Level = Literal["green", "amber", "red"]
_ORDER: tuple[Level, ...] = ("red", "amber", "green")
LATELY_MINUTES = 15
DEAD_MIN = 5  # lately: fewer are looked at one by one
DEAD_SHARE_MIN = 0.1
STANDING_S = 120.0  # longer than most calls
NAMES_MAX = 6

# What is wrong with one profile, and with several: `{}` is their number or the name.
_WORDS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "no_connection": ("No connection to profile {}", "No connection to {} profiles"),
        "rejected": ("The provider rejects profile {}", "Providers reject {} profiles"),
        "check_failed": ("Profile {} cannot be used", "{} profiles cannot be used"),
        "failing": ("The provider of profile {} fails", "The providers of {} profiles fail"),
        "silent": ("No reply from profile {}", "No reply from {} profiles"),
    }
)
# The same in a table, beside the name of the profile.
_SHORT_WORDS: Mapping[str, str] = MappingProxyType(
    {
        "no_connection": "no connection",
        "rejected": "rejected by the provider",
        "check_failed": "cannot be used",
        "failing": "the provider fails",
        "silent": "no reply",
    }
)
_UNANSWERED = ("Profile {} gives no answers", "{} profiles give no answers")
_CARDS = ("The card of toolset {} is not taken", "The cards of {} toolsets are not taken")
_OTHER = ("Profile {} is unhealthy", "{} profiles are unhealthy")


@dataclass(frozen=True, slots=True)
class ProfileStatus:
    """What workers say of a profile; `problem` is one word, None for a healthy one.

    `text` may name servers, and is for operators. `requests` are those in the workers' hands,
    `oldest_ms` is when the oldest was published; both times are in ms since 1970.
    """

    name: str
    problem: str | None = None
    text: str = ""
    since_ms: int | None = None
    requests: int = 0
    oldest_ms: int | None = None


def profile_status(name: str, details: object, text: object) -> ProfileStatus:
    """Of one worker: its details, and its sentence, which older workers alone have."""
    fields = details if isinstance(details, dict) else {}
    problem, requests = fields.get("problem"), fields.get("requests")
    return ProfileStatus(
        name,
        problem if isinstance(problem, str) else "unhealthy" if text else None,
        text if isinstance(text, str) else "",
        _milliseconds(fields.get("since")),
        requests if isinstance(requests, int) and requests > 0 else 0,
        _milliseconds(fields.get("oldest")),
    )


def merged(one: ProfileStatus, other: ProfileStatus) -> ProfileStatus:
    """Of two workers: the profile is unhealthy if it is so at one of them."""
    first = one if one.problem else other
    return replace(
        first,
        since_ms=_earliest(one.since_ms, other.since_ms),
        requests=one.requests + other.requests,
        oldest_ms=_earliest(one.oldest_ms, other.oldest_ms),
    )


def _earliest(one: int | None, other: int | None) -> int | None:
    return min((at_ms for at_ms in (one, other) if at_ms is not None), default=None)


def _milliseconds(value: object) -> int | None:
    try:
        at = datetime.fromisoformat(value) if isinstance(value, str) else None
        return int(at.astimezone(UTC).timestamp() * 1000) if at else None
    except (ValueError, OverflowError):
        return None


@dataclass(frozen=True, slots=True)
class StatusFacts:
    """What a status is drawn from: the state, and what broker and workers said last."""

    now_ms: int
    kafka_error: str | None = None  # why Kafka cannot be read
    percent: int | None = None  # of the first reading, until it is over
    profiles: Sequence[ProfileStatus] = ()
    unanswered: Sequence[str] = ()  # profiles of which no recent call was answered, as attempts say
    stuck: Sequence[str] = ()  # what workers say of themselves and their lanes
    toolsets: Mapping[str, str] = field(default_factory=dict)  # why a card is not taken
    workers: int = 0
    silent_workers: Sequence[str] = ()
    ended: int = 0  # in the last LATELY_MINUTES
    dead: int = 0
    dead_mostly: str | None = None  # why most of them died
    waiting: int | None = None  # records that are not done
    standing_s: float = 0.0  # how long there have been such records, and nothing has ended


@dataclass(frozen=True, slots=True)
class StatusFinding:
    """`headline` is short enough for a title; `whys` are the sources' own words, for operators."""

    level: Level
    headline: str
    rest: str = ""
    whys: Sequence[str] = ()
    href: str | None = None

    @property
    def text(self) -> str:
        return f"{self.headline}{self.rest}."


@dataclass(frozen=True, slots=True)
class BusStatus:
    """The findings, the worst first; never empty."""

    findings: Sequence[StatusFinding]

    @property
    def level(self) -> Level:
        """That of the worst."""
        return self.findings[0].level


def bus_status(facts: StatusFacts) -> BusStatus:
    """What an operator should know before anything else."""
    found = sorted(_findings(facts), key=lambda finding: _ORDER.index(finding.level))
    return BusStatus(found or [_well(facts)])


def _findings(facts: StatusFacts) -> Iterator[StatusFinding]:
    if facts.kafka_error:
        yield StatusFinding(
            "red", "Kafka cannot be read", "; what you see may be old", (facts.kafka_error,)
        )
    yield from _profiles(facts)
    if facts.unanswered:
        headline, names = _named(*_UNANSWERED, facts.unanswered)
        yield StatusFinding("red", headline, f", according to the attempts{names}")
    yield from _workers(facts)
    if facts.toolsets:
        headline, names = _named(*_CARDS, sorted(facts.toolsets))
        yield StatusFinding("amber", headline, names, tuple(facts.toolsets.values()))
    if facts.waiting and facts.standing_s >= STANDING_S and not facts.kafka_error:
        message = f"; none ended for {age_text(facts.standing_s)}"
        yield StatusFinding("amber", f"{count_text(facts.waiting, 'record')} waiting", message)
    yield from _dead(facts)
    if facts.percent is not None:
        message = f" ({facts.percent} %), and numbers are too small until then"
        yield StatusFinding("amber", "The topics are being read", message)


def unhealthy_profiles(profiles: Iterable[ProfileStatus], now_ms: int) -> Mapping[str, str]:
    """By name, what workers say is wrong: `no connection since 11:58 UTC; 23 requests waiting`."""
    return {
        profile.name: f"{_SHORT_WORDS.get(profile.problem, 'unhealthy')}{_since([profile], now_ms)}"
        f"{_held([profile], now_ms)}"
        for profile in sorted(profiles, key=lambda profile: profile.name)
        if profile.problem
    }


def _profiles(facts: StatusFacts) -> Iterator[StatusFinding]:
    """One finding for each kind of problem, with all profiles that have it."""
    by_problem = defaultdict[str, list[ProfileStatus]](list)
    for profile in sorted(facts.profiles, key=lambda profile: profile.name):
        if profile.problem:
            by_problem[profile.problem].append(profile)
    for problem, profiles in by_problem.items():
        headline, names = _named(
            *_WORDS.get(problem, _OTHER), [profile.name for profile in profiles]
        )
        whys = tuple(dict.fromkeys(profile.text for profile in profiles if profile.text))
        rest = f"{_since(profiles, facts.now_ms)}{names}{_held(profiles, facts.now_ms)}"
        yield StatusFinding("red", headline, rest, whys)


def _since(profiles: Sequence[ProfileStatus], now_ms: int) -> str:
    """When the first of them became unhealthy."""
    since_ms = min(
        (profile.since_ms for profile in profiles if profile.since_ms is not None), default=None
    )
    return "" if since_ms is None else f" since {clock_text(since_ms, now_ms)}"


def _held(profiles: Sequence[ProfileStatus], now_ms: int) -> str:
    """How many requests wait for these profiles, and how long the oldest has waited."""
    requests = sum(profile.requests for profile in profiles)
    oldest_ms = min(
        (profile.oldest_ms for profile in profiles if profile.oldest_ms is not None), default=None
    )
    if not requests:
        return ""
    age = "" if oldest_ms is None else f", the oldest {age_text((now_ms - oldest_ms) / 1000)}"
    return f"; {count_text(requests, 'request')} waiting{age}"


def _workers(facts: StatusFacts) -> Iterator[StatusFinding]:
    if facts.stuck:
        headline = count_text(len(facts.stuck), "problem") + " at workers"
        yield StatusFinding("red", headline, ", such as a lane that is stuck", facts.stuck)
    if facts.silent_workers:
        count = len(facts.silent_workers)
        level: Level = "red" if count == facts.workers else "amber"
        headline = f"{count} of {count_text(facts.workers, 'worker')} not answering"
        yield StatusFinding(level, headline, "", facts.silent_workers)


def _dead(facts: StatusFacts) -> Iterator[StatusFinding]:
    if facts.dead < DEAD_MIN or facts.dead < DEAD_SHARE_MIN * facts.ended:
        return
    headline = f"{facts.dead:,} of {facts.ended:,} requests died"
    mostly = f", most often: {facts.dead_mostly}" if facts.dead_mostly else ""
    rest = f" in the last {LATELY_MINUTES} min{mostly}"
    yield StatusFinding("amber", headline, rest, href=f"/letters?since={LATELY_MINUTES}m")


def _well(facts: StatusFacts) -> StatusFinding:
    ended = count_text(facts.ended, "request") if facts.ended else "no request"
    waiting = f", {facts.waiting:,} waiting" if facts.waiting else ""
    return StatusFinding(
        "green", "All is well", f": {ended} ended in the last {LATELY_MINUTES} min{waiting}"
    )


def _named(one: str, several: str, names: Sequence[str]) -> tuple[str, str]:
    """The words for so many, and behind a colon the names, where they are not in the words."""
    if len(names) == 1:
        return one.format(names[0]), ""
    listed = ", ".join(names[:NAMES_MAX])
    more = len(names) - NAMES_MAX
    return several.format(len(names)), f": {listed}{f' and {more} more' if more > 0 else ''}"

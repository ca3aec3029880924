"""One status for the top of every page: how bad it is, and why in one sentence each; pure."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from enum import IntEnum, auto
from types import MappingProxyType
from typing import Literal

from services.console.views.links import profile_href
from services.console.views.words import age_text, clock_text
from services.text.counted import count_text

Level = Literal["green", "amber", "red"]
_ORDER: tuple[Level, ...] = ("red", "amber", "green")
LATELY_MINUTES = 15
DEAD_MIN = 5  # lately: fewer are looked at one by one
DEAD_SHARE_MIN = 0.1
STANDING_S = 120.0  # longer than most calls
NAMES_MAX = 6
APPROVAL_LATE_S = 30 * 60  # then the alert ApprovalsOld fires as well
SHOWN_MAX = 3  # findings that are seen without unfolding the others

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
    """A profile's state as workers report it; `problem` is one word, None for a healthy one.

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


def _earliest(*times: int | None) -> int | None:
    return min((at_ms for at_ms in times if at_ms is not None), default=None)


def _milliseconds(value: object) -> int | None:
    try:
        at = datetime.fromisoformat(value) if isinstance(value, str) else None
        return int(at.astimezone(UTC).timestamp() * 1000) if at else None
    except (ValueError, OverflowError):
        return None


@dataclass(frozen=True, slots=True)
class StuckLane:
    """A lane that its worker, at `address`, reports as stuck, and why."""

    lane: int
    address: str
    why: str


@dataclass(frozen=True, slots=True)
class StatusFacts:
    """The inputs of a status: the state, and the last reports of broker and workers."""

    now_ms: int
    kafka_error: str | None = None  # why Kafka cannot be read
    percent: int | None = None  # of the first reading, until it is over
    profiles: Sequence[ProfileStatus] = ()
    unanswered: Sequence[str] = ()  # profiles without a recent answer, by their attempts
    stuck: Sequence[StuckLane] = ()
    worker_reasons: Sequence[str] = ()  # what concerns all lanes of a worker
    toolsets: Mapping[str, str] = field(default_factory=dict)  # why a card is not taken
    workers: int = 0
    silent_workers: Sequence[str] = ()
    abandoned: Sequence[int] = ()  # lanes of silent workers
    approvals: int = 0  # tool calls that await a person
    approval_age_s: float = 0.0  # of the oldest
    ended: int = 0  # in the last LATELY_MINUTES
    dead: int = 0
    dead_mostly: str | None = None  # why most of them died
    waiting: int | None = None  # records that are not done
    standing_s: float = 0.0  # how long there have been such records, and nothing has ended


class Stops(IntEnum):
    """The parts that a finding stops, the most important first."""

    EVERYTHING = auto()
    WORKERS = auto()
    LANES = auto()
    PROFILES = auto()
    RUNS = auto()
    REQUESTS = auto()
    NOTHING = auto()


@dataclass(frozen=True, slots=True)
class StatusFinding:
    """`headline` is short enough for a title; `whys` are the sources' own words, for operators.

    `href` is where one looks at it and acts.
    """

    level: Level
    stops: Stops
    headline: str
    href: str
    rest: str = ""
    whys: Sequence[str] = ()

    @property
    def text(self) -> str:
        return f"{self.headline}{self.rest}."


@dataclass(frozen=True, slots=True)
class BusStatus:
    """The findings, the worst first; never empty."""

    findings: Sequence[StatusFinding]

    @property
    def level(self) -> Level:
        return self.findings[0].level

    @property
    def shown(self) -> Sequence[StatusFinding]:
        """Those that are always seen: the worst, and what waits for a person."""
        first, others = self.findings[:SHOWN_MAX], self.findings[SHOWN_MAX:]
        return (*first, *(finding for finding in others if finding.stops is Stops.RUNS))

    @property
    def folded(self) -> Sequence[StatusFinding]:
        return [finding for finding in self.findings if finding not in self.shown]

    @property
    def has_whys(self) -> bool:
        """Whether the sources said more than the findings do."""
        return any(finding.whys for finding in self.findings)


def bus_status(facts: StatusFacts) -> BusStatus:
    """What an operator should know before anything else."""
    found = [*_findings(facts)]
    if all(finding.level == "green" for finding in found):
        found.insert(0, _well(facts))
    return BusStatus(sorted(found, key=_rank))


def _rank(finding: StatusFinding) -> tuple[int, Stops]:
    return _ORDER.index(finding.level), finding.stops


def _findings(facts: StatusFacts) -> Iterator[StatusFinding]:
    if facts.kafka_error:
        rest = "; what you see may be old"
        headline, why = "Kafka cannot be read", facts.kafka_error
        yield StatusFinding("red", Stops.EVERYTHING, headline, "/topics", rest, (why,))
    yield from _profiles(facts)
    if facts.unanswered:
        headline, names = _named(*_UNANSWERED, facts.unanswered)
        rest, href = f", according to the attempts{names}", _profile_href(facts.unanswered)
        yield StatusFinding("red", Stops.PROFILES, headline, href, rest)
    yield from _workers(facts)
    if facts.toolsets:
        headline, names = _named(*_CARDS, sorted(facts.toolsets))
        whys = tuple(facts.toolsets.values())
        yield StatusFinding("amber", Stops.REQUESTS, headline, "/runs", names, whys)
    if facts.waiting and facts.standing_s >= STANDING_S and not facts.kafka_error:
        rest = f"; none ended for {age_text(facts.standing_s)}"
        headline = f"{count_text(facts.waiting, 'record')} waiting"
        yield StatusFinding("amber", Stops.EVERYTHING, headline, "/lanes", rest)
    yield from _approvals(facts)
    yield from _dead(facts)
    if facts.percent is not None:
        rest = f" ({facts.percent} %), and numbers are too small until then"
        headline = "The topics are being read"
        yield StatusFinding("amber", Stops.NOTHING, headline, "/topics", rest)


def short_problem(problem: str) -> str:
    """The problem of a profile, to be shown beside its name."""
    return _SHORT_WORDS.get(problem, "unhealthy")


def unhealthy_profiles(profiles: Iterable[ProfileStatus], now_ms: int) -> Mapping[str, str]:
    """By name, what workers say is wrong: `no connection since 11:58 UTC; 23 requests waiting`."""
    return {
        profile.name: f"{short_problem(profile.problem)}{_since([profile], now_ms)}"
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
        href = _profile_href([profile.name for profile in profiles])
        yield StatusFinding("red", Stops.PROFILES, headline, href, rest, whys)


def _profile_href(names: Sequence[str]) -> str:
    """Of one the place on the page, of several the page."""
    return profile_href(names[0]) if len(names) == 1 else "/profiles"


def _since(profiles: Sequence[ProfileStatus], now_ms: int) -> str:
    """When the first of them became unhealthy."""
    since_ms = _earliest(*(profile.since_ms for profile in profiles))
    return "" if since_ms is None else f" since {clock_text(since_ms, now_ms)}"


def _held(profiles: Sequence[ProfileStatus], now_ms: int) -> str:
    """How many requests wait for these profiles, and how long the oldest has waited."""
    requests = sum(profile.requests for profile in profiles)
    oldest_ms = _earliest(*(profile.oldest_ms for profile in profiles))
    if not requests:
        return ""
    age = "" if oldest_ms is None else f", the oldest {age_text((now_ms - oldest_ms) / 1000)}"
    return f"; {count_text(requests, 'request')} waiting{age}"


def _workers(facts: StatusFacts) -> Iterator[StatusFinding]:
    if facts.worker_reasons:
        headline = f"{count_text(len(facts.worker_reasons), 'problem')} of workers"
        yield StatusFinding("red", Stops.WORKERS, headline, "/#workers", "", facts.worker_reasons)
    yield from _stuck(facts.stuck)
    if facts.silent_workers:
        count, lanes = len(facts.silent_workers), facts.abandoned
        is_all = count == facts.workers
        stops = Stops.EVERYTHING if is_all else Stops.LANES if lanes else Stops.NOTHING
        headline = f"{count} of {count_text(facts.workers, 'worker')} not answering"
        wait = f"; its {_lane_names(lanes)}" if count == 1 else f"; their {_lane_names(lanes)}"
        rest = f"{wait} wait for another worker" if lanes else ""
        level: Level = "red" if is_all else "amber"
        yield StatusFinding(level, stops, headline, "/#workers", rest, facts.silent_workers)


def _stuck(stuck: Sequence[StuckLane]) -> Iterator[StatusFinding]:
    """One lane with its reason, where that is known; several in one sentence."""
    if not stuck:
        return
    if len(stuck) == 1:
        lane = stuck[0]
        headline, href = f"Lane {lane.lane} is stuck", f"/lanes#lane-{lane.lane}"
        rest = f" at {lane.address}" + (f": {lane.why}" if lane.why else "")
        yield StatusFinding("red", Stops.LANES, headline, href, rest)
        return
    headline = f"{len(stuck)} lanes are stuck"
    rest = f": {_listed([str(lane.lane) for lane in stuck])}"
    whys = [f"lane {lane.lane} at {lane.address}: {lane.why}" for lane in stuck if lane.why]
    yield StatusFinding("red", Stops.LANES, headline, "/lanes", rest, whys)


def _lane_names(lanes: Sequence[int]) -> str:
    return f"lane{'' if len(lanes) == 1 else 's'} {_listed([str(lane) for lane in lanes])}"


def _approvals(facts: StatusFacts) -> Iterator[StatusFinding]:
    if not facts.approvals:
        return
    level: Level = "amber" if facts.approval_age_s >= APPROVAL_LATE_S else "green"
    verb = "awaits" if facts.approvals == 1 else "await"
    headline = f"{count_text(facts.approvals, 'tool call')} {verb} approval"
    rest = f", the oldest for {age_text(facts.approval_age_s)}"
    yield StatusFinding(level, Stops.RUNS, headline, "/runs", rest)


def _dead(facts: StatusFacts) -> Iterator[StatusFinding]:
    if facts.dead < DEAD_MIN or facts.dead < DEAD_SHARE_MIN * facts.ended:
        return
    headline = f"{facts.dead:,} of {facts.ended:,} requests died"
    mostly = f", most often: {facts.dead_mostly}" if facts.dead_mostly else ""
    rest = f" in the last {LATELY_MINUTES} min{mostly}"
    href = f"/letters?since={LATELY_MINUTES}m"
    yield StatusFinding("amber", Stops.REQUESTS, headline, href, rest)


def _well(facts: StatusFacts) -> StatusFinding:
    ended = count_text(facts.ended, "request") if facts.ended else "no request"
    waiting = f", {facts.waiting:,} waiting" if facts.waiting else ""
    rest = f": {ended} ended in the last {LATELY_MINUTES} min{waiting}"
    return StatusFinding("green", Stops.EVERYTHING, "All is well", "/", rest)


def _named(one: str, several: str, names: Sequence[str]) -> tuple[str, str]:
    """The words for so many, and behind a colon the names, where they are not in the words."""
    if len(names) == 1:
        return one.format(names[0]), ""
    return several.format(len(names)), f": {_listed(names)}"


def _listed(names: Sequence[str]) -> str:
    """The first of them, and how many more there are."""
    more = len(names) - NAMES_MAX
    return ", ".join(names[:NAMES_MAX]) + (f" and {more} more" if more > 0 else "")

"""The status on top of every page: how bad, why, how many, since when; each reason once."""

from dataclasses import replace

import pytest

from services.console.views.status import (
    APPROVAL_LATE_S,
    DEAD_MIN,
    STANDING_S,
    ProfileStatus,
    StatusFacts,
    StuckLane,
    bus_status,
    merged,
    profile_status,
)
from tests.unit.operators.stored_examples import NOON_MS

FIVE = ("claude", "default", "gemini", "openai", "small")
WELL = StatusFacts(NOON_MS, ended=93, waiting=2)


def away(name: str, **more: int) -> ProfileStatus:
    text = f"no connection to https://{name}.example for 95 s"
    return ProfileStatus(name, "no_connection", text, NOON_MS - 95_000, **more)


def texts(facts: StatusFacts) -> list[tuple[str, str]]:
    return [(found.level, found.text) for found in bus_status(facts).findings]


def test_five_profiles_away_are_one_sentence_with_counts() -> None:
    held = {"default": 300, "claude": 169}
    profiles = [
        away(name, requests=held.get(name, 0), oldest_ms=NOON_MS - 95_000)
        if name in held
        else away(name)
        for name in reversed(FIVE)
    ]
    status = bus_status(replace(WELL, profiles=[*profiles, ProfileStatus("well", requests=7)]))

    assert [found.text for found in status.findings] == [
        (
            "No connection to 5 profiles since 11:58 UTC: claude, default, gemini, openai, small; "
            "469 requests waiting, the oldest 95 s."
        )
    ]
    assert status.level == "red"
    assert len(status.findings[0].whys) == 5


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        (WELL, ("green", "All is well: 93 requests ended in the last 15 min, 2 waiting.")),
        (
            StatusFacts(NOON_MS),
            ("green", "All is well: no request ended in the last 15 min."),
        ),
        (
            replace(WELL, profiles=[away("claude", requests=1)]),
            ("red", "No connection to profile claude since 11:58 UTC; 1 request waiting."),
        ),
        (
            replace(WELL, profiles=[ProfileStatus("a", "rejected", "status 401")]),
            ("red", "The provider rejects profile a."),
        ),
        (
            replace(WELL, profiles=[ProfileStatus(f"p-{n}", "of_the_future") for n in range(8)]),
            (
                "red",
                "8 profiles are unhealthy: p-0, p-1, p-2, p-3, p-4, p-5 and 2 more.",
            ),
        ),
        (
            replace(WELL, kafka_error="Kafka does not answer."),
            ("red", "Kafka cannot be read; what you see may be old."),
        ),
        (
            replace(WELL, unanswered=["claude"]),
            ("red", "Profile claude gives no answers, according to the attempts."),
        ),
        (
            replace(WELL, stuck=[StuckLane(3, "http://w-1", "has been opening for 99 s")]),
            ("red", "Lane 3 is stuck at http://w-1: has been opening for 99 s."),
        ),
        (
            replace(WELL, stuck=[StuckLane(lane, "http://w-1", "a fault") for lane in (3, 5)]),
            ("red", "2 lanes are stuck: 3, 5."),
        ),
        (
            replace(WELL, worker_reasons=["http://w-1: Kafka has not answered for 50 s"]),
            ("red", "1 problem of workers."),
        ),
        (
            replace(WELL, workers=3, silent_workers=["w-1: TimeoutError"], abandoned=[0, 3]),
            ("amber", "1 of 3 workers not answering; its lanes 0, 3 wait for another worker."),
        ),
        (
            replace(WELL, approvals=2, approval_age_s=APPROVAL_LATE_S),
            ("amber", "2 tool calls await approval, the oldest for 30 min."),
        ),
        (
            replace(WELL, workers=3, silent_workers=["http://w-1: TimeoutError"]),
            ("amber", "1 of 3 workers not answering."),
        ),
        (
            replace(WELL, workers=1, silent_workers=["http://w-1: TimeoutError"]),
            ("red", "1 of 1 worker not answering."),
        ),
        (
            replace(WELL, dead=37, ended=60, dead_mostly="/actions/0/args is not JSON"),
            (
                "amber",
                (
                    "37 of 60 requests died in the last 15 min, most often: "
                    "/actions/0/args is not JSON."
                ),
            ),
        ),
        (
            replace(WELL, waiting=1234, standing_s=STANDING_S + 60),
            ("amber", "1,234 records waiting; none ended for 3 min."),
        ),
        (
            replace(WELL, percent=43),
            (
                "amber",
                "The topics are being read (43 %), and numbers are too small until then.",
            ),
        ),
    ],
)
def test_the_worst_comes_first(facts: StatusFacts, expected: tuple[str, str]) -> None:
    assert texts(facts)[0] == expected


@pytest.mark.parametrize(
    "facts",
    [
        replace(WELL, dead=DEAD_MIN - 1, ended=DEAD_MIN - 1),
        replace(WELL, dead=DEAD_MIN, ended=1_000),
        replace(WELL, waiting=5, standing_s=STANDING_S - 1),
        replace(WELL, waiting=0, standing_s=STANDING_S + 1),
        replace(WELL, profiles=[ProfileStatus("busy", requests=1_000, oldest_ms=0)]),
    ],
)
def test_what_is_usual_is_no_alarm(facts: StatusFacts) -> None:
    assert bus_status(facts).level == "green"


def test_all_that_is_wrong_is_named_and_red_stands_before_amber() -> None:
    found = texts(
        replace(
            WELL,
            dead=50,
            ended=60,
            profiles=[away("claude"), ProfileStatus("b", "rejected")],
            workers=2,
            silent_workers=["x"],
        )
    )

    assert [level for level, _ in found] == ["red", "red", "amber", "amber"]


def test_findings_are_sorted_by_what_they_stop_and_each_leads_to_where_one_acts() -> None:
    status = bus_status(
        replace(
            WELL,
            profiles=[away("vision", requests=7), ProfileStatus("b", "rejected")],
            stuck=[StuckLane(0, "http://w-1", "a record cannot be read")],
            kafka_error="it does not answer",
            workers=3,
            silent_workers=["worker-3: ClientConnectorError"],
            abandoned=[4],
            approvals=6,
            dead=50,
            ended=60,
        )
    )

    assert [(found.headline, found.href) for found in status.findings] == [
        ("Kafka cannot be read", "/topics"),
        ("Lane 0 is stuck", "/lanes#lane-0"),
        ("The provider rejects profile b", "/profiles#profile-b"),
        ("No connection to profile vision", "/profiles#profile-vision"),
        ("1 of 3 workers not answering", "/#workers"),
        ("50 of 60 requests died", "/letters?since=15m"),
        ("6 tool calls await approval", "/runs"),
    ]
    assert [found.headline for found in status.shown] == [
        "Kafka cannot be read",
        "Lane 0 is stuck",
        "The provider rejects profile b",
        "6 tool calls await approval",
    ]
    assert [*status.shown[:3], *status.folded, status.shown[3]] == [*status.findings]


def test_approvals_that_are_not_late_are_named_and_nothing_is_wrong() -> None:
    status = bus_status(replace(WELL, approvals=1, approval_age_s=40))

    assert [found.level for found in status.findings] == ["green", "green"]
    assert [found.text for found in status.shown] == [
        "All is well: 93 requests ended in the last 15 min, 2 waiting.",
        "1 tool call awaits approval, the oldest for 40 s.",
    ]


def test_what_workers_say_may_be_anything() -> None:
    odd: list[object] = [None, 7, "x", [], {"problem": 7, "since": "soon", "requests": "many"}]
    for details in odd:
        assert profile_status("p", details, None) == ProfileStatus("p")
    assert profile_status("p", None, "rejected: 401").problem == "unhealthy"
    fields = {
        "problem": "silent",
        "since": "2026-11-21T12:00:00.000Z",
        "requests": 3,
        "oldest": "2026-11-21T11:59:00Z",
    }
    assert profile_status("p", fields, "no word") == ProfileStatus(
        "p", "silent", "no word", NOON_MS, 3, NOON_MS - 60_000
    )


def test_a_profile_of_several_workers_is_one() -> None:
    well, ill = ProfileStatus("p", requests=4, oldest_ms=5), away("p", requests=3, oldest_ms=9)

    for one in (merged(well, ill), merged(ill, well)):
        assert (one.problem, one.requests, one.oldest_ms) == ("no_connection", 7, 5)

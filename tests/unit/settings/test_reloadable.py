"""Which settings may change while a worker runs, and the digest by which workers are compared."""

import pytest

from services.settings.reloadable import digest_of, fixed_differences
from services.settings.settings import Settings

PROFILE = {"provider": "openai", "model": "m", "base_url": "http://127.0.0.1:1/v1"}


def settings(**tables: object) -> Settings:
    return Settings.model_validate({"profiles": {"default": PROFILE}, **tables})


@pytest.mark.parametrize(
    "tables",
    [
        {"profiles": {"default": PROFILE | {"max_in_flight": 7}}},
        {"profiles": {"default": PROFILE, "other": PROFILE}},
        {"agents": {"support": {"instructions": "Help."}}},
        {"worker": {"max_in_flight": 7}},
        {"worker": {"held_max": 7, "lane_requests_max": 7, "lane_bytes_max": 7, "drain_s": 7}},
    ],
    ids=["limit", "profile", "agent", "slots", "limits"],
)
def test_profiles_agents_and_limits_may_change_and_change_the_digest(
    tables: dict[str, object],
) -> None:
    before, after = settings(), settings(**tables)

    assert fixed_differences(before, after) == []
    assert digest_of(before) != digest_of(after)


def test_budgets_are_taken_at_a_start_alone() -> None:
    """A lane asks the home of a budget before its first spend, as limits may be others then."""
    changed = settings(budgets={"tenant:*": {"usd": {"day": 1}}})

    assert fixed_differences(settings(), changed) == ["budgets"]


def test_what_is_of_one_process_or_of_the_console_changes_no_digest() -> None:
    one = settings(worker={"name": "a", "health": "127.0.0.1:1"})
    other = settings(worker={"name": "b", "health": "127.0.0.1:2"}, console={"port": 1})

    assert digest_of(one) == digest_of(other)
    assert fixed_differences(settings(), settings(console={"port": 1})) == []


def test_what_is_taken_at_a_start_alone_is_named() -> None:
    found = settings(
        kafka={"topic_prefix": "acme"}, worker={"health": "127.0.0.1:1"}, ids={"remember_s": 60}
    )

    assert fixed_differences(settings(), found) == [
        "kafka.topic_prefix",
        "worker.health",
        "ids.remember_s",
    ]

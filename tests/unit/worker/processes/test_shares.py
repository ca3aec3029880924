"""Several processes together use no more than the settings allow."""

from pathlib import Path

import pytest

from services.settings.profiles import OpenAIProfile, ScriptedProfile
from services.settings.settings import KafkaSettings, Settings, SetUpError
from services.settings.worker import WorkerSettings
from services.worker.processes.supervisor import share

SETTINGS = Settings(
    kafka=KafkaSettings(group_instance_id="host-a"),
    worker=WorkerSettings(name="w", health="0.0.0.0:8080", max_in_flight=1_000, held_max=10),
    profiles={
        "default": OpenAIProfile(
            provider="openai",
            model="m",
            max_in_flight=101,
            requests_per_minute=600,
            tokens_per_minute=100_001,
            scope="worker",
        ),
        "played": ScriptedProfile(
            provider="scripted", script=Path("s.json"), max_in_flight=3, scope="worker"
        ),
        "of-the-group": ScriptedProfile(
            provider="scripted", script=Path("s.json"), max_in_flight=3, requests_per_minute=2
        ),
    },
)


def test_limits_are_shared_and_names_stay_unique() -> None:
    shares = [share(SETTINGS, number, 3) for number in range(3)]

    assert [s.kafka.group_instance_id for s in shares] == ["host-a-0", "host-a-1", "host-a-2"]
    assert [s.worker.name for s in shares] == ["w-0", "w-1", "w-2"]
    assert [s.worker.health for s in shares] == ["0.0.0.0:8080", "0.0.0.0:8081", "0.0.0.0:8082"]
    assert [s.worker.max_in_flight for s in shares] == [334, 333, 333]
    assert [s.worker.held_max for s in shares] == [4, 3, 3]
    default = [s.profiles["default"] for s in shares]
    assert [profile.max_in_flight for profile in default] == [34, 34, 33]
    assert [profile.requests_per_minute for profile in default] == [200, 200, 200]
    assert [profile.tokens_per_minute for profile in default] == [33_334, 33_334, 33_333]
    assert [s.profiles["played"].requests_per_minute for s in shares] == [None] * 3


def test_limits_of_the_group_are_shared_by_lanes_and_not_by_processes() -> None:
    whole = SETTINGS.profiles["of-the-group"]

    assert [share(SETTINGS, n, 3).profiles["of-the-group"] for n in range(3)] == [whole] * 3


def test_what_is_not_named_is_left_alone() -> None:
    part = share(Settings(worker=WorkerSettings(health="127.0.0.1:0")), 1, 2)

    assert (part.worker.name, part.worker.health) == (None, "127.0.0.1:0")
    assert part.kafka.group_instance_id is None


def test_one_process_has_everything() -> None:
    assert share(SETTINGS, 0, 1).worker.max_in_flight == 1_000


def test_a_limit_that_is_too_small_to_share_is_named() -> None:
    with pytest.raises(SetUpError, match=r"`profiles\.played\.max_in_flight` is 3.*4 processes"):
        share(SETTINGS, 3, 4)

"""Profiles that change while a worker runs: checked before, and all of them or none."""

from collections.abc import Mapping
from pathlib import Path

import pytest
from pydantic import TypeAdapter

from services.settings.profiles import Profile
from services.settings.settings import SetUpError
from services.worker.adapters import backends
from services.worker.adapters.building import BackendContext
from tests.providers.calls import StoppedClock

ADAPTER: TypeAdapter[Profile] = TypeAdapter(Profile)
KEY_VARIABLE, KEY = "TEST_CHANGED_KEY", "sk-changed-0123456789"


@pytest.fixture
def script(tmp_path: Path) -> Path:
    file = tmp_path / "script.json"
    file.write_text('{"rules": []}')
    return file


def scripted(script: Path, **more: object) -> Profile:
    return ADAPTER.validate_python({"provider": "scripted", "script": str(script), **more})


def asked(**more: object) -> Profile:
    table = {"provider": "openai", "model": "m", "base_url": "http://127.0.0.1:1/v1"}
    return ADAPTER.validate_python({**table, **more})


async def change(
    known: Mapping[str, Profile], wanted: Mapping[str, Profile], context: BackendContext
) -> tuple[set[str], set[str], set[str], list[str]]:
    """What is made again, of that what asks as before, and what goes."""
    found, reported = await backends.changed(known, wanted, context)
    await backends.close(found.backends)
    return set(found.backends), set(found.alike), set(found.gone), reported


async def test_only_what_has_changed_is_made_again(script: Path) -> None:
    known = {"same": scripted(script), "limited": asked(), "other": asked(), "gone": asked()}
    wanted = {
        "same": scripted(script),
        "limited": asked(max_in_flight=1, timeout_s=5, requests_per_minute=7),
        "other": scripted(script),
        "new": scripted(script),
    }

    made, alike, gone, reported = await change(known, wanted, BackendContext(StoppedClock()))

    assert made == {"limited", "other", "new"}
    assert (alike, gone) == ({"limited"}, {"gone"})
    assert (
        reported == []
    )  # the server of `limited` is away, and is not asked: its limits alone change


async def test_a_new_provider_that_is_away_is_reported_and_taken(script: Path) -> None:
    known = {"default": scripted(script)}

    made, _, _, (said,) = await change(known, {"default": asked()}, BackendContext(StoppedClock()))

    assert made == {"default"}
    assert said.startswith("Profile `default`: ")


async def test_with_one_that_can_never_work_nothing_is_made(script: Path, tmp_path: Path) -> None:
    known = {"default": scripted(script)}
    wanted = {
        "default": scripted(script, max_in_flight=3),
        "keyless": asked(api_key_env="NO_SUCH_KEY"),
        "scriptless": scripted(tmp_path / "nowhere.json"),
    }

    with pytest.raises(SetUpError) as refused:
        await change(known, wanted, BackendContext(StoppedClock()))

    assert "Profile `keyless`: " in str(refused.value)
    assert "Profile `scriptless`: " in str(refused.value)


async def test_no_profile_at_all_is_refused(script: Path) -> None:
    with pytest.raises(SetUpError, match="No profile is configured"):
        await change({"default": scripted(script)}, {}, BackendContext(StoppedClock()))


async def test_new_keys_are_masked_everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(KEY_VARIABLE, KEY)
    context = BackendContext(StoppedClock())
    assert context.mask(KEY) == KEY

    await change({"a": asked()}, {"a": asked(), "b": asked(api_key_env=KEY_VARIABLE)}, context)

    assert KEY not in context.mask(f"it said {KEY}")

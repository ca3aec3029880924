"""`shadow` of profiles: what cannot work is said in a sentence, before any work is done."""

from pathlib import Path
from typing import Any

import pytest

from answerbus.limits import NAME_CHARS_MAX
from services.settings.profiles import OpenAIProfile, asks_alike
from services.settings.settings import Settings, SetUpError, load
from services.settings.shadow import ShadowSettings
from services.worker.adapters import backends
from services.worker.adapters.clock import SystemClock

ROOT = Path(__file__).parents[3]
SCRIPTED = 'provider = "scripted"\nscript = "s.json"\n'
LONG = "x" * (NAME_CHARS_MAX - 10)


def loaded(tmp_path: Path, **shadows: str) -> Settings:
    """Settings with a profile for each name, whose `shadow` is given as TOML, if any."""
    file = tmp_path / "answerbus.toml"
    tables = [
        f'[profiles."{name}"]\n{SCRIPTED}{f"shadow = {text}" if text else ""}\n'
        for name, text in shadows.items()
    ]
    file.write_text("".join(tables))
    return load(file, {})


def of(profile: str, share: Any = 0.05, usd: Any = 5) -> str:
    return f'{{profile = "{profile}", share = {share}, usd_per_day = {usd}}}'


def test_the_shadow_of_the_documentation(tmp_path: Path) -> None:
    settings = loaded(tmp_path, default=of("new"), new="")
    default = settings.profiles["default"]

    assert default.shadow == ShadowSettings(profile="new", share=0.05, usd_per_day=5)
    assert asks_alike(default, settings.profiles["new"])  # a provider need not be checked again


def test_what_a_worker_makes_of_a_profile_is_the_same_with_a_shadow() -> None:
    plain = OpenAIProfile(provider="openai", model="m", base_url="http://localhost:1/v1")
    shadow = ShadowSettings(profile="new", share=1, usd_per_day=5)
    shadowed = plain.model_copy(update={"shadow": shadow})
    one, other = (
        backends.build({"default": profile}, SystemClock())["default"]
        for profile in (plain, shadowed)
    )
    of_worker = (path.read_text() for path in (ROOT / "services/worker").rglob("*.py"))

    assert (one.facts, one.dialect) == (other.facts, other.dialect)
    assert one.limiter.slots.limit == other.limiter.slots.limit
    assert not any(".shadow" in text for text in of_worker)


BAD: list[tuple[dict[str, str], str]] = [
    ({"a": of("a")}, "`shadow` of the profile `a` names the profile itself"),
    ({"a": of("b")}, "`shadow` of the profile `a` names an unknown profile, `b`"),
    ({"a": of("b"), "b": of("c"), "c": ""}, "names `b`, which has a shadow itself"),
    ({"a": of("b"), "b": of("a")}, "names `b`, which has a shadow itself"),
    ({"a": of("b", share=1.01), "b": ""}, "shadow.share`: "),
    ({"a": of("b", share=-0.01), "b": ""}, "shadow.share`: "),
    ({"a": of("b", share="true"), "b": ""}, "shadow.share`: must be a number"),
    ({"a": of("b", share="nan"), "b": ""}, "shadow.share`: "),
    ({"a": of("b", usd=-1), "b": ""}, "shadow.usd_per_day`: "),
    ({"a": of("b", usd=1e-7), "b": ""}, "shadow.usd_per_day`: must be 0, or at least 0.000001"),
    ({"a": of("b", usd=1e308), "b": ""}, "shadow.usd_per_day`: "),
    ({"a": '{profile = "b", share = 0.1}', "b": ""}, "shadow.usd_per_day`: "),
    ({LONG: of("b" * 20), "b" * 20: ""}, "too many to name a comparison"),
]


@pytest.mark.parametrize(("shadows", "fault"), BAD)
def test_what_cannot_work_is_said_in_a_sentence(
    tmp_path: Path, shadows: dict[str, str], fault: str
) -> None:
    with pytest.raises(SetUpError) as refused:
        loaded(tmp_path, **shadows)

    assert fault in str(refused.value)

"""`then` of profiles: what is wrong with it is said in one sentence, before any work is done."""

from pathlib import Path
from typing import Any

import pytest

from services.settings.settings import Settings, SetUpError, load

SCRIPTED = 'provider = "scripted"\nscript = "s.json"\n'


def loaded(tmp_path: Path, **then: str) -> Settings:
    """Settings with a profile for each name, whose `then` is given as TOML."""
    file = tmp_path / "answerbus.toml"
    tables = [f"[profiles.{name}]\n{SCRIPTED}then = {text}\n" for name, text in then.items()]
    file.write_text("".join(tables))
    return load(file, {})


def to(profile: str, *on: str) -> str:
    return f"[{{profile = {profile!r}, on = {list(on)!r}}}]".replace("'", '"')


def test_the_way_down_of_the_documentation(tmp_path: Path) -> None:
    on = ("unhealthy", "throttled > 20s", "refused", "invalid >= 2", "truncated")
    settings = loaded(tmp_path, default=to("large", *on), large="[]")

    assert settings.profiles["default"].then[0].conditions == (
        ("unhealthy", 1),
        ("throttled", 20.0),
        ("refused", 1),
        ("invalid", 2),
        ("truncated", 1),
    )


def test_it_may_stand_in_a_variable() -> None:
    variables = {
        "ANSWERBUS_PROFILES__A__PROVIDER": "scripted",
        "ANSWERBUS_PROFILES__A__SCRIPT": "s.json",
        "ANSWERBUS_PROFILES__B__PROVIDER": "scripted",
        "ANSWERBUS_PROFILES__B__SCRIPT": "s.json",
        "ANSWERBUS_PROFILES__A__THEN": '[{"profile": "b", "on": ["refused"]}]',
    }

    assert load(None, variables).profiles["a"].then[0].profile == "b"


def test_the_size_of_a_list_in_a_variable_is_in_items() -> None:
    variables = {
        "ANSWERBUS_PROFILES__A__PROVIDER": "scripted",
        "ANSWERBUS_PROFILES__A__SCRIPT": "s.json",
        "ANSWERBUS_PROFILES__A__THEN": '[{"profile": "b", "on": []}]',
    }

    with pytest.raises(SetUpError, match="1 or more items"):
        load(None, variables)


MANY = f"[{', '.join(to('b', 'refused')[1:-1] for _ in range(1_000))}]"
CHAIN = {f"p-{n}": to(f"p-{n + 1}", "refused") for n in range(9)}
BAD: list[tuple[dict[str, Any], str]] = [
    ({"a": to("a", "refused")}, "`then` of the profile `a` names the profile itself"),
    ({"a": to("b", "refused")}, "`then` of the profile `a` names an unknown profile, `b`"),
    (
        {"a": to("b", "refused"), "b": to("c", "refused"), "c": to("a", "refused")},
        "`then` leads back to where it began: ",
    ),
    ({"a": MANY, "b": "[]"}, "8 or fewer items"),
    ({"a": to("b", *["refused"] * 9), "b": "[]"}, "then.0.on`: "),
    ({"a": to("b"), "b": "[]"}, "1 or more items"),
    ({"a": to("b", "throttled > -1s"), "b": "[]"}, "one of `unhealthy`, `throttled > 20s`"),
    ({"a": to("b", "throttled > 1e9s"), "b": "[]"}, "one of `unhealthy`"),
    ({"a": to("b", "throttled > 99999s"), "b": "[]"}, "one of `unhealthy`"),
    ({"a": to("b", "invalid >= 0"), "b": "[]"}, "one of `unhealthy`"),
    ({"a": to("b", "invalid >= ٢"), "b": "[]"}, "one of `unhealthy`"),
    ({"a": to("b", "when it rains"), "b": "[]"}, "one of `unhealthy`"),
    ({"a": to("b", "x" * 100_000), "b": "[]"}, "at most 64 characters"),
    ({"a": to("b", "refused")[:-1] + f", {to('b', 'truncated')[1:]}", "b": "[]"}, "twice"),
    ({**CHAIN, "p-9": "[]"}, "`then` of the profile `p-0` leads to more than 8 in a row"),
]


@pytest.mark.parametrize(("then", "fault"), BAD, ids=[fault[:40] for _, fault in BAD])
def test_what_cannot_work_is_said_in_a_sentence(
    tmp_path: Path, then: dict[str, Any], fault: str
) -> None:
    with pytest.raises(SetUpError) as refused:
        loaded(tmp_path, **then)

    said = str(refused.value)
    assert fault in said
    assert len(said) < 1_000
    assert "\n" not in said


def test_the_circle_is_named_in_its_direction(tmp_path: Path) -> None:
    with pytest.raises(SetUpError, match=r"`a` → `b` → `c` → `a`|`b` → `c` → `a`|`c` → `a` → `b`"):
        loaded(tmp_path, a=to("b", "refused"), b=to("c", "refused"), c=to("a", "refused"))

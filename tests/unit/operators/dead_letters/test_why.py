"""Why dead letters died: by their last failure, and not by how trying ended."""

from typing import Any, get_args

import pytest

from answerbus.failure import Failure
from services.operators.dead_letters.groups import BY_DEFAULT, Key, group, key_of
from services.operators.dead_letters.why import why_text
from tests.unit.operators.dead_letters.examples import dead_letter_body, example, folded

INVALID = {
    "kind": "invalid",
    "problems": [
        {"path": "/actions/0/args", "code": "json_text", "expected": "JSON"},
        {"path": "/rationale", "code": "maxLength", "expected": "less"},
    ],
}


def why(cause: dict[str, Any], *failures: dict[str, Any]) -> str:
    prior = [{"attempt": n, "failure": failure} for n, failure in enumerate(failures, start=1)]
    (dead_letter,) = folded(dead_letter_body(cause=cause, prior=prior))
    return dead_letter.why


SPENT = {"kind": "budget_exhausted", "which": "attempts"}
OF_LABEL = {"kind": "budget_exhausted", "which": "micro_usd", "budget": "tenant:acme"}
TIMED_OUT = {"kind": "timed_out", "after_s": 1.0}


@pytest.mark.parametrize(
    ("cause", "failures", "expected"),
    [
        (SPENT, [TIMED_OUT, INVALID], "invalid: json_text at /actions/0/args"),
        (SPENT, [INVALID, TIMED_OUT], "timed_out"),
        (SPENT, [{"kind": "unavailable", "status": 503}], "unavailable: 503"),
        (SPENT, [], "budget_exhausted: attempts"),
        (OF_LABEL, [], "budget_exhausted: micro_usd of a label"),
        (OF_LABEL, [INVALID], "budget_exhausted: micro_usd of a label"),
        ({"kind": "deadline_passed"}, [INVALID], "invalid: json_text at /actions/0/args"),
        ({"kind": "deadline_passed"}, [], "deadline_passed"),
        ({"kind": "invalid_answer", "failure": TIMED_OUT}, [INVALID], "timed_out"),
        (
            {"kind": "rejected", "status": 400, "code": "too_long"},
            [TIMED_OUT],
            "rejected: 400 too_long",
        ),
        ({"kind": "rejected", "status": None, "code": None}, [], "rejected"),
        ({"kind": "crashed_worker", "openings": 3}, [INVALID], "crashed_worker"),
        (
            {
                "kind": "unsupported_schema",
                "dialect": "openai",
                "problems": [{"path": "", "code": "root", "expected": "an object"}],
            },
            [],
            "unsupported_schema: root",
        ),
    ],
)
def test_the_last_failure_is_why_where_trying_ended(
    cause: dict[str, Any], failures: list[dict[str, Any]], expected: str
) -> None:
    assert why(cause, *failures) == expected


def test_dead_letters_of_one_why_are_one_group_however_they_ended() -> None:
    prior = [{"attempt": 1, "failure": INVALID}]
    dead_letters = folded(
        *(dead_letter_body(f"a-{n}", cause=SPENT, prior=prior) for n in range(3)),
        dead_letter_body("late", cause={"kind": "deadline_passed"}, prior=prior),
        dead_letter_body("other", cause=SPENT, prior=[{"attempt": 1, "failure": TIMED_OUT}]),
    )

    groups = group(dead_letters, [Key(name) for name in BY_DEFAULT])

    assert [(one.values[0], one.count) for one in groups] == [
        ("invalid: json_text at /actions/0/args", 4),
        ("timed_out", 1),
    ]
    assert [(one.values, one.count) for one in group(dead_letters, [Key("problem")])] == [
        (("json_text",), 4),
        ((None,), 1),
    ]
    assert key_of("why") == Key("why")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("invalid: json_text at /actions/0/args", "/actions/0/args is not JSON"),
        ("invalid: wrong at /a at /b", "/a at /b breaks the rule wrong"),
        ("invalid: type", "the answer has another type"),
        ("invalid: extra_forbidden at /reason", "/reason is not in the schema"),
        ("invalid: escapes_sandbox at /files/0", "/files/0 leaves the working tree"),
        ("undecodable: less_than_equal at /ttl_s", "invalid request: /ttl_s is too large"),
        ("timed_out", "the provider did not answer in time"),
        ("unavailable: 503", "the provider was not available (503)"),
        ("undecodable: missing at /kind", "invalid request: /kind is missing"),
        ("unknown_profile", "unknown profile"),
    ],
)
def test_it_is_said_in_words(value: str, text: str) -> None:
    assert why_text(value) == text


def kinds_of(union: Any) -> list[str]:
    return [member.model_fields["kind"].default for member in get_args(get_args(union)[0])]


@pytest.mark.parametrize("kind", kinds_of(Failure))
def test_each_failure_has_words(kind: str) -> None:
    assert why_text(kind) != kind.replace("_", " ")


def test_a_code_without_a_bound_is_cut_and_ends_no_list() -> None:
    cause = {"kind": "rejected", "status": 400, "code": "x" * 100_000}

    assert len(why(cause)) < 2_000


def test_committed_examples_have_one() -> None:
    (dead_letter,) = folded(example("dead_letter", "invalid_answer"))

    assert dead_letter.why == "invalid: escapes_sandbox at /manifest_path"

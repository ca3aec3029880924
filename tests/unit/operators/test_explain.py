"""Failures and causes in words."""

from pathlib import Path

import pytest

from answerbus.cause import ANY_DIALECT, HostileSchema, Rejected, UnsupportedSchema
from answerbus.dead_letter import Cause, DeadLetter
from answerbus.envelope import Undecodable, decode
from answerbus.failure import Failure, Malformed, Problem, Throttled, Unavailable, Unknown
from answerbus.outcome import RetryRequest
from services.operators.explain import cause_text, failure_text, remedy

TOO_DEEP = Problem.of("/a", "depth", "at most 32 levels")
EXAMPLES = sorted((Path(__file__).parents[3] / "contracts/examples").rglob("*.json"))


def causes() -> list[Cause]:
    events = [decode(path.read_bytes()) for path in EXAMPLES if path.parent.name == "dead_letter"]
    return [event.cause for event in events if isinstance(event, DeadLetter)]


def failures() -> list[Failure]:
    events = [decode(path.read_bytes()) for path in EXAMPLES if path.parent.name == "retry_request"]
    return [event.failure for event in events if isinstance(event, RetryRequest)]


@pytest.mark.parametrize("cause", causes(), ids=lambda cause: cause.kind)
def test_every_cause_has_a_sentence_and_something_to_do(cause: Cause) -> None:
    assert len(cause_text(cause)) > 20
    assert "\n" not in cause_text(cause)
    assert remedy(cause).endswith(".")


@pytest.mark.parametrize(
    ("cause", "may_help"),
    [
        (HostileSchema(problems=(TOO_DEEP,)), False),
        (UnsupportedSchema(dialect=ANY_DIALECT, problems=(TOO_DEEP,)), False),
        (UnsupportedSchema(dialect="openai", problems=(TOO_DEEP,)), True),
    ],
)
def test_another_profile_is_named_only_where_it_may_help(cause: Cause, *, may_help: bool) -> None:
    assert ("another profile" in remedy(cause)) == may_help


def test_causes_differ_in_words() -> None:
    texts = {cause_text(cause) for cause in causes()}

    # One example of `rejected` has a status and one has none; all others are of different kinds.
    assert len(texts) == len(causes())


@pytest.mark.parametrize("failure", failures(), ids=lambda failure: failure.kind)
def test_every_failure_has_a_phrase(failure: Failure) -> None:
    assert len(failure_text(failure)) > 10


@pytest.mark.parametrize(
    ("failure", "expected"),
    [
        (Malformed(position=7, excerpt="Sure!"), "the answer is not JSON from byte 7 on"),
        (Throttled(retry_after_s=20.0), "the provider is busy for 20 s"),
        (Throttled(retry_after_s=None), "the provider is busy"),
        (Unavailable(status=502), "the provider is not available (HTTP 502)"),
        (Unavailable(status=200), "the provider gave no answer (HTTP 200)"),
        (Unavailable(status=None), "the provider is not available"),
        (Unknown(), "the worker ended during the call"),
    ],
)
def test_what_is_not_known_is_not_said(failure: Failure, expected: str) -> None:
    assert failure_text(failure) == expected


def test_a_dead_letter_of_an_unknown_kind_cannot_come_here() -> None:
    """The union is closed: the codec turns it into Undecodable, which has words of its own."""
    assert isinstance(decode(b'{"kind":"dead_letter","cause":{"kind":"mood"}}'), Undecodable)


@pytest.mark.parametrize(
    ("status", "code", "said"),
    [
        (400, "too_long", "HTTP 400, too_long"),
        (400, None, "HTTP 400"),
        (None, "no_rule", "no_rule"),
        (None, None, "it does not say why"),
    ],
)
def test_a_rejection_says_what_the_provider_has_said(
    status: int | None, code: str | None, said: str
) -> None:
    text = cause_text(Rejected(status=status, code=code))

    assert text == f"The provider rejects this request without working on it ({said})."

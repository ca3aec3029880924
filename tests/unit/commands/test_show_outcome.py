"""How a outcome looks: the answer to the one console, all words to the other."""

import json
from pathlib import Path

import pytest
from rich.console import Console

from answerbus.dead_letter import DeadLetter
from answerbus.envelope import decode
from answerbus.event import AnyOutcome
from answerbus.outcome import Refusal, Result, UnvalidatedResult
from services.commands.show_outcome import show

EXAMPLES = Path(__file__).parents[3] / "contracts/examples"
KINDS = ("result", "unvalidated_result", "refusal", "dead_letter")


def example(name: str) -> AnyOutcome:
    event = decode((EXAMPLES / f"{name}.json").read_bytes())
    assert isinstance(event, Result | UnvalidatedResult | Refusal | DeadLetter)
    return event


def shown(outcome: AnyOutcome) -> tuple[str, str]:
    data, words = (Console(width=100, highlight=False, soft_wrap=True) for _ in range(2))
    with data.capture() as first, words.capture() as second:
        show(outcome, data, words)
    return first.get(), second.get()


def test_an_answer_is_data_and_the_rest_words() -> None:
    data, words = shown(example("result/dep_bump"))

    assert json.loads(data) == {
        "kind": "dep_bump",
        "manifest_path": "package.json",
        "package": "lodash",
        "target_version": "4.17.21",
    }
    assert "plan_proposal.v1, attempt 2" in words
    assert "Note: `pattern` is not enforced by this provider; checked after" in words


def test_of_many_notes_the_first_are_shown() -> None:
    result = example("result/text").model_copy(update={"notes": tuple("abcdef")})

    words = shown(result)[1]

    assert "Note: c" in words
    assert "Note: d" not in words
    assert "and 3 more notes, which --json shows" in words


def test_text_is_shown_as_text() -> None:
    assert shown(example("result/text"))[0] == "Goeie!\n"


def test_a_dead_letter_says_why_what_was_tried_and_what_to_do() -> None:
    data, words = shown(example("dead_letter/budget_exhausted_attempts"))

    assert data == ""
    for text in (
        "Invalid once: ",
        "Attempt 1: no answer within 60 s",
        "Attempt 2: the answer was cut at 4096 tokens",
        "Replay it with a budget of its own",
        "0199e7a4-6c1f-7a31-9d52-3f8e0b7c2a10.dead-letter",
    ):
        assert text in words


def test_a_refusal_says_by_whom_and_why() -> None:
    data, words = shown(example("refusal/by_model"))

    assert data == ""
    assert "Declined by the model (out_of_scope)" in words
    assert "The advisory has no fixed release." in words


def test_an_answer_that_is_not_valid_is_never_data() -> None:
    data, words = shown(example("unvalidated_result/invalid"))

    assert data == ""
    assert "/output/method" in words
    assert '"LIST"' in words


@pytest.mark.parametrize(
    "name",
    [
        f"{path.parent.name}/{path.stem}"
        for path in sorted(EXAMPLES.rglob("*.json"))
        if path.parent.name in KINDS
    ],
)
def test_every_outcome_can_be_shown(name: str) -> None:
    data, words = shown(example(name))

    assert words
    assert bool(data) is name.startswith("result/")


@pytest.mark.parametrize(
    "name", ["result/text", "result/dep_bump", "refusal/by_provider", "unvalidated_result/invalid"]
)
def test_control_and_invisible_characters_are_written_out(name: str) -> None:
    hostile = "\x1b[2J\u202e\U000e0041\x9b31m[bold]\u200b"
    values = {
        "answer": {"kind": "x", "text": hostile} if name == "result/dep_bump" else hostile,
        "unvalidated_answer": {hostile: hostile},
        "reason": hostile,
        "category": hostile,
        "notes": (hostile,),
        "workflow_id": hostile,
    }
    outcome = example(name)
    fields = {field: value for field, value in values.items() if hasattr(outcome, field)}

    data, words = shown(outcome.model_copy(update=fields))

    for text in (data, words):
        assert all(sign.isprintable() or sign == "\n" for sign in text)
    assert "\\u202e" in data + words
    assert "[bold]" in data + words


def test_no_word_of_a_reason_is_cut_off() -> None:
    refusal = example("refusal/by_model").model_copy(update={"reason": "a reason of words " * 20})
    words = shown(refusal)[1]

    assert words.count("reason") == 20
    assert max(map(len, words.splitlines()[:-1])) <= 100

"""What `print(outcome)` shows and what `outcome.unwrap()` gives or raises."""

import pickle
from pathlib import Path
from typing import Any

import pytest

from answerbus.answers.plan_proposal import DepBump, PlanProposal
from answerbus.client import DeadLetterError, OutcomeError, RefusalError, UnvalidatedError
from answerbus.client.answer_type import AnswerType
from answerbus.dead_letter import Cancelled, DeadLetter
from answerbus.envelope import decode
from answerbus.event import AnyOutcome
from answerbus.explain import remedy
from answerbus.outcome import Refusal, Result, UnvalidatedResult
from answerbus.registry import Registry

EXAMPLES = Path(__file__).parents[2] / "contracts/examples"
TERMINALS = [
    path
    for kind in ("result", "unvalidated_result", "refusal", "dead_letter")
    for path in sorted((EXAMPLES / kind).glob("*.json"))
]


def terminal(path: Path) -> AnyOutcome:
    event = decode(path.read_bytes())
    assert isinstance(event, Result | UnvalidatedResult | Refusal | DeadLetter)
    return event


def example(name: str) -> Any:
    return terminal(EXAMPLES / f"{name}.json")


@pytest.fixture
def bump() -> Any:
    return AnswerType.of(PlanProposal, Registry()).typed_outcome(example("result/dep_bump"))


@pytest.mark.parametrize("path", TERMINALS, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_every_outcome_is_one_line(path: Path) -> None:
    outcome = terminal(path)
    ident = outcome.dead_letter_id if isinstance(outcome, DeadLetter) else outcome.request_id

    assert str(outcome).isprintable()
    assert ident in str(outcome)


def test_a_typed_answer_comes_first(bump: Result[Any]) -> None:
    assert str(bump).startswith("DepBump(kind='dep_bump', manifest_path='package.json', ")
    assert str(bump).endswith(
        f"(result of {bump.request_id}: plan_proposal.v1, attempt 2, {bump.model.model})"
    )
    assert repr(bump).startswith("Result(answer=DepBump(") or "](answer=DepBump(" in repr(bump)


def test_a_text_comes_first_and_commands_no_terminal() -> None:
    text = example("result/text").model_copy(update={"answer": "one\n\x1b[31mtwo\u202e"})

    assert str(text).startswith(r"one\n\x1b[31mtwo\u202e (result of ")


def test_a_notebook_shows_what_cannot_be_seen() -> None:
    cause = Cancelled(by="ops", reason="<b>\u202eexe.\x1b[2J")
    shown = example("dead_letter/cancelled").model_copy(update={"cause": cause})._repr_html_()

    assert r"&lt;b&gt;\u202eexe.\x1b[2J" in shown


def test_a_refusal_says_by_whom_and_why() -> None:
    refusal = example("refusal/by_model")

    assert str(refusal).startswith(
        "Declined by the model (out_of_scope): The advisory has no fixed release. (refusal of "
    )
    assert "(reason=" in repr(refusal)


def test_a_result_unwraps_to_its_answer(bump: Result[Any]) -> None:
    assert bump.unwrap() is bump.answer
    assert isinstance(bump.unwrap(), DepBump)


@pytest.mark.parametrize(
    "path",
    [path for path in TERMINALS if path.parent.name != "result"],
    ids=lambda path: f"{path.parent.name}/{path.stem}",
)
def test_every_other_outcome_raises_a_typed_error_that_says_what_to_do(path: Path) -> None:
    outcome = terminal(path)
    expected: dict[type[Any], type[OutcomeError]] = {
        UnvalidatedResult: UnvalidatedError,
        Refusal: RefusalError,
        DeadLetter: DeadLetterError,
    }
    with pytest.raises(OutcomeError) as raised:
        outcome.unwrap()

    assert type(raised.value) is expected[type(outcome)]
    assert raised.value.outcome is outcome
    assert str(raised.value).startswith(f"{outcome} ")
    assert str(raised.value).isprintable()
    if isinstance(outcome, DeadLetter):
        assert str(raised.value).endswith(remedy(outcome.cause))


def test_an_error_survives_the_way_between_processes() -> None:
    error = RefusalError(example("refusal/by_model"))
    copy = pickle.loads(pickle.dumps(error))

    assert (type(copy), copy.outcome, str(copy)) == (RefusalError, error.outcome, str(error))

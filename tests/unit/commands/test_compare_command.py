"""`answerbus compare`: the exit code says whether bars are met by the whole sample."""

import asyncio
from collections.abc import Callable

import pytest
from typer.testing import CliRunner

from answerbus.compared import Compared
from services import cli
from services.commands import compare, comparing
from services.commands.comparing import EndedComparison
from services.console.tasks.comparison_reading import ComparisonReader
from services.operators.adapters.asking_again import OVER_BUDGET
from services.operators.adapters.comparing import ComparisonProgress
from services.operators.comparisons.sample import OutcomeSample
from services.settings.settings import Settings, SetUpError
from tests.unit.operators.comparisons.test_comparisons import compared

EARLY = "before all of its sample was asked"


@pytest.mark.parametrize(
    ("ended", "bars", "code"),
    [
        (None, ("--bar", "valid>=0.98"), 0),
        (OVER_BUDGET.why, ("--bar", "valid>=0.98"), 1),
        (OVER_BUDGET.why, (), 0),
    ],
    ids=["whole", "ended early", "no bar"],
)
def test_no_bar_is_met_by_a_comparison_that_ended_early(
    ended: str | None, bars: tuple[str, ...], code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    progress = ComparisonProgress(ended=ended)
    progress.folded.take(compared())

    async def ran(*_given: object) -> EndedComparison:
        return EndedComparison(progress, is_stopped=False)

    monkeypatch.setattr(compare, "run", ran)
    arguments = ["compare", "--profile", "new", "--budget-usd", "1", *bars]
    done = CliRunner().invoke(cli.application(), arguments)

    assert done.exit_code == code, done.output
    assert (EARLY in " ".join(done.stderr.split())) == bool(code)


def test_a_long_name_and_long_paths_are_whole_in_a_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    progress, name, member = ComparisonProgress(), "n" * 100, f"/{'m' * 100}"
    progress.folded.take(compared(fields=[{"path": member, "equal": True}]))

    async def shown(*_given: object) -> EndedComparison:
        return EndedComparison(progress, is_stopped=False)

    monkeypatch.setattr(compare, "made_before", shown)
    done = CliRunner().invoke(cli.application(), ["compare", "--show", name])

    assert name in done.stdout
    assert member in done.stdout


@pytest.mark.parametrize("given", [(), ("--profile", "new"), ("--budget-usd", "1")])
def test_without_a_comparison_to_show_a_profile_and_a_budget_are_needed(
    given: tuple[str, ...],
) -> None:
    done = CliRunner().invoke(cli.application(), ["compare", *given])

    assert done.exit_code == 2, done.output
    assert "--show" in done.stderr


@pytest.mark.parametrize(
    "option", [("--profile", "large"), ("--since", "7d"), ("--sample", "9"), ("--concurrency", "4")]
)
def test_an_earlier_comparison_is_not_asked_again(option: tuple[str, str]) -> None:
    done = CliRunner().invoke(cli.application(), ["compare", "--show", "c-1", *option])

    assert done.exit_code == 2
    assert "--show is for an earlier comparison" in done.stderr


def test_a_comparison_that_is_not_kept_is_no_fault_of_the_set_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def read(_reader: object, _take: object, _name: str) -> None:
        """Finds no record."""

    monkeypatch.setattr(ComparisonReader, "read", read)
    done = CliRunner().invoke(cli.application(), ["compare", "--show", "nope"])

    assert done.exit_code == 1, done.output
    assert "No record of a comparison 'nope' is kept" in done.stderr


def test_a_name_that_was_given_before_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    async def read(_reader: object, take: Callable[[Compared, int], None], name: str) -> None:
        if name == "kept":
            take(compared(), 0)

    def planned(*_given: object) -> None:
        raise SetUpError("it went on")

    monkeypatch.setattr(ComparisonReader, "read", read)
    monkeypatch.setattr(comparing, "planning", planned)
    said = {}
    for name in ("kept", "new"):
        order = comparing.Order(name, "new", None, 1, 0, 1, is_named=True)
        with pytest.raises(SetUpError) as raised:
            asyncio.run(comparing.run(Settings(), order, OutcomeSample(1, None)))
        said[name] = str(raised.value)

    assert "There is a comparison 'kept' already" in said["kept"]
    assert said["new"] == "it went on"

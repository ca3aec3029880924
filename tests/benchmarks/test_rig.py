from pathlib import Path

from rich.console import Console

from tests.benchmarks.rig import Rig


def rig(match: str = "") -> Rig:
    return Rig(Path("."), 1, Console(quiet=True), match)


def test_versions_of_the_history_take_part_beside_this_one() -> None:
    here = rig()
    here.trees = {"a2f2ce1": Path("a2f2ce1")}

    assert [*here.products(10)] == ["product", "product at a2f2ce1"]


def test_trials_are_chosen_by_an_expression() -> None:
    chosen = rig("^100 in flight, (log-normal|constant): product$")

    assert chosen.wants("100 in flight, log-normal: product")
    assert not chosen.wants("1,100 in flight, log-normal: product")
    assert not chosen.wants("100 in flight, log-normal: product at a2f2ce1")

"""What a history is that breaks a promise."""

from collections.abc import Callable
from dataclasses import dataclass

from tests.chaos.by_hand.history_builder import HistoryBuilder
from tests.chaos.by_hand.run_history_builder import RunHistoryBuilder
from tests.chaos.by_hand.tree_history_builder import TreeHistoryBuilder

Tell = Callable[[HistoryBuilder], None]
TellRun = Callable[[RunHistoryBuilder], None]
TellTree = Callable[[TreeHistoryBuilder], None]


@dataclass(frozen=True, slots=True)
class Broken:
    """What is told, the promise it breaks, what about, and words that the explanation has."""

    name: str
    promise: str
    about: str
    words: str
    tell: Tell
    partitions: int = 1


def breaks(promise: str, about: str, words: str, partitions: int = 1) -> Callable[[Tell], Broken]:
    """Makes of a function that tells a history a broken promise."""
    return lambda tell: Broken(tell.__name__, promise, about, words, tell, partitions)


@dataclass(frozen=True, slots=True)
class BrokenRun:
    """The same of a run."""

    name: str
    promise: str
    about: str
    words: str
    tell: TellRun


def breaks_run(promise: str, about: str, words: str) -> Callable[[TellRun], BrokenRun]:
    """Makes of a function that tells a history of a run a broken promise."""
    return lambda tell: BrokenRun(tell.__name__, promise, about, words, tell)


@dataclass(frozen=True, slots=True)
class BrokenTree:
    """The same of a tree."""

    name: str
    promise: str
    about: str
    words: str
    tell: TellTree


def breaks_tree(promise: str, about: str, words: str) -> Callable[[TellTree], BrokenTree]:
    """Makes of a function that tells a history of a tree a broken promise."""
    return lambda tell: BrokenTree(tell.__name__, promise, about, words, tell)


def attempted(builder: HistoryBuilder) -> None:
    """The request `r` up to an attempt that was answered."""
    builder.ask("r")
    builder.spend("r")
    builder.call("r")
    builder.settle("r")

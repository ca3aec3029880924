"""A tool in its server: its card, the reading of its arguments, and its function; pure."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from pydantic import JsonValue

from answerbus.failure import Problem
from answerbus.toolset_card import ToolCard


@dataclass(frozen=True, slots=True)
class ValidArgs:
    """Arguments as the tool takes them."""

    value: object


@dataclass(frozen=True, slots=True)
class InvalidArgs:
    """Arguments that do not fit: at least one problem, with paths within them."""

    problems: tuple[Problem, ...]


@dataclass(frozen=True, slots=True)
class Tool:
    """`call` takes the arguments as they were read, and the call; in a thread if not `is_async`.

    `reconcile` takes the id of a call and its arguments, and finds out whether it had its effect.
    `cancel` takes the state that was kept for a call which is not wanted any more.
    """

    card: ToolCard
    read_args: Callable[[dict[str, JsonValue]], ValidArgs | InvalidArgs]
    call: Callable[[object, object], object]
    is_async: bool
    reconcile: Callable[[str, Any], object] | None = None
    cancel: Callable[[str], Awaitable[None]] | None = None

    @property
    def name(self) -> str:
        """The name on its card, without the toolset's."""
        return self.card.name

"""The help of each command: complete, and the same words for the same option."""

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import pytest

from services import cli

SAME = ("--config", "--json", "--yes", "--log-level")


def commands(name: str) -> Iterator[tuple[str, Any]]:
    """The command, or those of its group."""
    found = cli.loaded(name)
    for inner in getattr(found, "commands", {}).values():
        yield f"{name} {inner.name}", inner
    if not getattr(found, "commands", {}):
        yield name, found


ALL = dict(command for name in cli._PARTS for command in commands(name))


@pytest.mark.parametrize("name", ALL)
def test_a_command_and_each_of_its_parameters_are_explained(name: str) -> None:
    command = ALL[name]
    assert (command.help or "").strip().partition("\n")[0].endswith(".")
    unexplained = [one.name for one in command.params if not (one.help or "").strip()]
    assert unexplained == []


def test_an_option_has_the_same_words_in_all_commands() -> None:
    found: dict[str, set[str]] = defaultdict(set)
    for command in ALL.values():
        for one in command.params:
            for option in {*one.opts} & {*SAME}:
                found[option].add(one.help)

    assert found.keys() == {*SAME}
    assert {option: words for option, words in found.items() if len(words) > 1} == {}

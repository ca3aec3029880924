"""How deep a JSON value nests, found without recursion, so that no depth can harm."""

from collections.abc import Iterator

from pydantic import JsonValue


def nests_deeper(value: JsonValue, levels: int) -> bool:
    """Whether objects and arrays stand in one another more than `levels` deep."""
    level = list(_containers([value]))
    for _ in range(levels):
        if not level:
            return False
        level = [inner for outer in level for inner in _containers(_inside(outer))]
    return bool(level)


def _containers(values: list[JsonValue]) -> Iterator[JsonValue]:
    return (value for value in values if isinstance(value, dict | list))


def _inside(container: JsonValue) -> list[JsonValue]:
    match container:
        case dict():
            return list(container.values())
        case list():
            return container
        case _:
            return []

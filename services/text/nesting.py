"""How deep a JSON value nests, found without recursion, so that no depth can harm."""

from pydantic import JsonValue

_CONTAINERS = (dict, list)  # a tuple: a union of types takes several times as long to look at


def nests_deeper(value: JsonValue, levels: int) -> bool:
    """Whether objects and arrays are in one another more than `levels` deep."""
    level = [value] if isinstance(value, _CONTAINERS) else []
    for _ in range(levels):
        if not level:
            return False
        level = [
            inner
            for outer in level
            for inner in (outer.values() if isinstance(outer, dict) else outer)
            if isinstance(inner, _CONTAINERS)
        ]
    return bool(level)

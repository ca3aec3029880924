"""Finds the part of a schema that governs a path of an answer; pure."""

import re
from collections import deque
from collections.abc import Iterator
from typing import Any

from answerbus.problems import pointer

STEPS_MAX = 500  # of references and alternatives, for one path

_INDEX = re.compile(r"0|[1-9][0-9]{0,8}")
_ALTERNATIVES = ("anyOf", "oneOf", "allOf")
_Found = tuple[str, Any]


def schema_place(schema: Any, path: str) -> str:
    """The pointer of that part; of the nearest one around it that the schema has."""
    place: _Found = ("", schema)
    steps = iter(range(STEPS_MAX))
    for token in path.split("/")[1:]:
        inner = _inside(schema, place, token.replace("~1", "/").replace("~0", "~"), steps)
        if inner is None:
            break
        place = inner
    return place[0]


def _inside(root: Any, place: _Found, token: str, steps: Iterator[int]) -> _Found | None:
    waiting = deque([place])
    while waiting and next(steps, None) is not None:
        at, node = waiting.popleft()
        if not isinstance(node, dict):
            continue
        if found := _member(at, node, token):
            return found
        waiting += _meant(root, at, node)
    return None


def _member(at: str, node: dict[str, Any], token: str) -> _Found | None:
    properties = node.get("properties")
    if isinstance(properties, dict) and token in properties:
        return f"{at}/properties{pointer((token,))}", properties[token]
    if _INDEX.fullmatch(token):
        prefix = node.get("prefixItems")
        if isinstance(prefix, list) and int(token) < len(prefix):
            return f"{at}/prefixItems/{int(token)}", prefix[int(token)]
        if "items" in node:
            return f"{at}/items", node["items"]
    if isinstance(node.get("additionalProperties"), dict):
        return f"{at}/additionalProperties", node["additionalProperties"]
    return None


def _meant(root: Any, at: str, node: dict[str, Any]) -> Iterator[_Found]:
    """The target of a reference, and the alternatives."""
    reference = node.get("$ref")
    if isinstance(reference, str) and reference.startswith("#"):
        target = root
        for token in reference.split("/")[1:]:
            name = token.replace("~1", "/").replace("~0", "~")
            target = target.get(name) if isinstance(target, dict) else None
        yield reference[1:], target
    for keyword in _ALTERNATIVES:
        branches = node.get(keyword)
        for number, branch in enumerate(branches if isinstance(branches, list) else ()):
            yield f"{at}/{keyword}/{number}", branch

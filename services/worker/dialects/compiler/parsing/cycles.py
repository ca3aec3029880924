"""Breaks reference cycles that a provider cannot follow; the cut part becomes JSON text."""

from collections.abc import Callable, Iterator
from dataclasses import replace

from services.worker.dialects.compiler.shapes.describe import described
from services.worker.dialects.compiler.shapes.notes import Notes
from services.worker.dialects.compiler.shapes.rules import Rules
from services.worker.dialects.compiler.shapes.shape import (
    Array,
    Object,
    Ref,
    Shape,
    Shapes,
    Text,
    Union,
    types_written,
)

_ROOT = ""  # no definition has this name
_Place = tuple[str, bool]  # a definition's name, and whether an optional member holds it


def break_cycles(
    root: Shape, definitions: dict[str, Shape], rules: Rules, notes: Notes
) -> tuple[Shape, dict[str, Shape]]:
    """The same shapes with no more recursion than the rules allow."""
    if rules.recursion == "anywhere":
        return root, definitions
    everything = {_ROOT: root, **definitions}
    only_required = rules.recursion == "optional"
    graph = {
        name: [ref for ref, optional in _refs(shape) if not (optional and only_required)]
        for name, shape in everything.items()
    }
    closing = _closing(graph)
    for _, name in sorted(closing):
        notes.as_text(f"`{name}` inside itself")

    def replaced(owner: str) -> Callable[[Ref, bool], Shape]:
        def replace_ref(ref: Ref, optional: bool) -> Shape:  # noqa: FBT001 - a place
            cut = (owner, ref.name) in closing and not (optional and only_required)
            return described(_inside_itself(ref.name, definitions), ref.description) if cut else ref

        return replace_ref

    kept = {
        name: _rebuilt(shape, replaced(name), optional=False) for name, shape in everything.items()
    }
    return kept.pop(_ROOT), kept


def _inside_itself(name: str, definitions: dict[str, Shape]) -> Text:
    hint = f"A JSON value of the form of `{name}`, written as JSON text into this string."
    shapes = Shapes(definitions[name], definitions)
    kinds = (types_written(leaf) for leaf in shapes.leaves(shapes.root))
    return Text(hint, frozenset[str]().union(*kinds))


def _refs(shape: Shape, *, optional: bool = False) -> Iterator[_Place]:
    match shape:
        case Ref():
            yield shape.name, optional
        case Array():
            yield from _refs(shape.items, optional=optional)
        case Object():
            for member in shape.members:
                yield from _refs(member.shape, optional=optional or member.optional)
        case Union():
            for branch in (*shape.branches, shape.fallback):
                yield from _refs(branch, optional=optional)
        case _:
            return


def _closing(graph: dict[str, list[str]]) -> set[tuple[str, str]]:
    """The references that lead back to where one came from, looking from the root on."""
    found: set[tuple[str, str]] = set()
    done: set[str] = set()
    for start in graph:
        open_names: dict[str, Iterator[str]] = {}
        waiting = [] if start in done else [start]
        while waiting:
            name = waiting[-1]
            onward = open_names.setdefault(name, iter(graph[name]))
            following = next(onward, None)
            if following is None:
                waiting.pop()
                del open_names[name]
                done.add(name)
            elif following in open_names:
                found.add((name, following))
            elif following not in done:
                waiting.append(following)
    return found


def _rebuilt(shape: Shape, replace_ref: Callable[[Ref, bool], Shape], *, optional: bool) -> Shape:
    match shape:
        case Ref():
            return replace_ref(shape, optional)
        case Array():
            return replace(shape, items=_rebuilt(shape.items, replace_ref, optional=optional))
        case Object():
            members = tuple(
                replace(m, shape=_rebuilt(m.shape, replace_ref, optional=optional or m.optional))
                for m in shape.members
            )
            return replace(shape, members=members)
        case Union():
            branches = tuple(_rebuilt(b, replace_ref, optional=optional) for b in shape.branches)
            fallback = _rebuilt(shape.fallback, replace_ref, optional=optional)
            return replace(shape, branches=branches, fallback=fallback)
        case _:
            return shape

"""Bounds on numbers, lengths and sizes: the tightest that hold, as no provider misreads them."""

import math
from collections.abc import Iterator, Mapping

from services.worker.dialects.compiler.parsing.subschemas import Subschema, Subschemas
from services.worker.dialects.compiler.shapes.notes import Notes
from services.worker.dialects.compiler.shapes.rules import Rules
from services.worker.dialects.compiler.shapes.shape import JsonObject

# Beyond these llama.cpp misreads a bound that is alone; one of 16 digits ends its server.
_LOW_ALONE_MAX = 9
_HIGH_ALONE_MIN = 0
_EXACT_MAX = 2**53  # beyond, a provider may read a bound as another number
NUMBER_BOUNDS = frozenset(
    ["minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum", "multipleOf"]
)
LIST_SIZES = ("minItems", "maxItems")
TEXT_LENGTHS = ("minLength", "maxLength")
_LOW = ("minimum", "exclusiveMinimum")
_HIGH = ("maximum", "exclusiveMaximum")

_Bounds = dict[str, int | float]


def bounds(kind: str, subschemas: Subschemas, rules: Rules, notes: Notes) -> JsonObject | None:
    """The tightest bounds on numbers of a type; None if no number meets them all."""
    found: _Bounds = {}
    for atom, keyword, value in _stated(subschemas):
        another = keyword == "multipleOf" and found.get(keyword, value) != value
        carried = _carried(kind, keyword, rules)
        if not carried or abs(value) > _EXACT_MAX or another:
            notes.not_enforced(keyword, atom.path)
            continue
        tighter = max if keyword in _LOW else min
        found[keyword] = tighter(value, found.get(keyword, value))
    if kind == "integer":
        found = _two_sided(_inclusive(found), rules.integer_max)
    return dict(found) if _satisfiable(found) else None


def _carried(kind: str, keyword: str, rules: Rules) -> bool:
    """Whether a bound can be written; those of integers are written without the exclusive ones."""
    if kind == "number":
        return keyword in rules.number_bounds
    inclusive = {"exclusiveMinimum": "minimum", "exclusiveMaximum": "maximum"}
    return inclusive.get(keyword, keyword) in rules.integer_bounds


def _stated(subschemas: Subschemas) -> Iterator[tuple[Subschema, str, int | float]]:
    for atom in subschemas:
        for keyword in (*_LOW, *_HIGH, "multipleOf"):
            value = atom.get(keyword)
            if isinstance(value, int | float) and not isinstance(value, bool):
                yield atom, _exclusive(atom, keyword), value


def _exclusive(atom: Subschema, keyword: str) -> str:
    """Draft 4 says `exclusiveMinimum: true` beside `minimum`."""
    exclusive = f"exclusive{keyword[0].upper()}{keyword[1:]}"
    return exclusive if atom.get(exclusive) is True else keyword


def _inclusive(found: _Bounds) -> _Bounds:
    """Bounds of integers as integers that are themselves allowed."""
    lows = [math.ceil(found[key]) for key in ("minimum",) if key in found]
    lows += [math.floor(found[key]) + 1 for key in ("exclusiveMinimum",) if key in found]
    highs = [math.floor(found[key]) for key in ("maximum",) if key in found]
    highs += [math.ceil(found[key]) - 1 for key in ("exclusiveMaximum",) if key in found]
    whole: _Bounds = {key: value for key, value in found.items() if key == "multipleOf"}
    if lows:
        whole["minimum"] = max(lows)
    if highs:
        whole["maximum"] = min(highs)
    return whole


def _two_sided(found: _Bounds, most: int | None) -> _Bounds:
    """The same with both bounds, where there is but one and its provider misreads it alone."""
    low, high = found.get("minimum"), found.get("maximum")
    if most is None or (low is None) == (high is None):
        return found
    if low is not None:
        return found | {"maximum": most} if low > _LOW_ALONE_MAX else found
    return found | {"minimum": -most} if high is not None and high < _HIGH_ALONE_MIN else found


def _satisfiable(found: _Bounds) -> bool:
    low = max((found[key] for key in _LOW if key in found), default=-math.inf)
    high = min((found[key] for key in _HIGH if key in found), default=math.inf)
    excluded = found.get("exclusiveMinimum") == low or found.get("exclusiveMaximum") == high
    return low < high or (low == high and not excluded)


def sizes_of(
    subschemas: Subschemas, keywords: tuple[str, str], limits: Mapping[str, int], notes: Notes
) -> JsonObject | None:
    """The least and the largest size; None if no size is both. `limits` are the provider's."""
    least, most = keywords
    found: dict[str, int] = {}
    for atom in subschemas:
        for keyword, tighter in ((least, max), (most, min)):
            value = atom.get(keyword)
            if not isinstance(value, int | float) or (keyword == least and value <= 0):
                continue
            if value <= limits.get(keyword, -1):
                found[keyword] = tighter(int(value), found.get(keyword, int(value)))
                continue
            notes.not_enforced(keyword, atom.path)
            if keyword == least and keyword in limits:  # most of it is better than none
                found[keyword] = limits[keyword]
    if found.get(least, 0) > found.get(most, found.get(least, 0)):
        return None
    return dict(found)

"""A recipe: a short description of a long text, which a search can change a little at a time."""

import json
import random
from collections.abc import Iterator, Sequence

# A text, in which § stands for the number of the repetition around it; or one of
# ["all", a, b, …], ["times", inner, count, separator], ["nested", opening, inner, closing, depth].
Recipe = str | list["Recipe | int"]

INDEX = "§"
COUNT_MAX = 200_000
_COUNTED = {"times": 2, "nested": 4}  # where the count is
_NESTINGS = (("[", "]"), ('{"a":', "}"), ('{"§":[', "]}"))


class TooLongError(Exception):
    """The text would be longer than it may be."""


def text_of(recipe: Recipe, chars_max: int, index: int = 0) -> str:
    """What it describes. Raises TooLongError."""
    match recipe:
        case str():
            found = recipe.replace(INDEX, str(index))
        case ["all", *parts]:
            found = "".join(text_of(part, chars_max, index) for part in _recipes(parts))
        case ["times", str() | list() as inner, int(count), str(separator)]:
            found = _repeated(inner, count, separator, chars_max, index)
        case ["nested", str(opening), str() | list() as inner, str(closing), int(depth)]:
            _fits(depth * (len(opening) + len(closing)), chars_max)
            found = opening * depth + text_of(inner, chars_max, index) + closing * depth
        case _:
            raise TooLongError
    _fits(len(found), chars_max)
    return found


def _repeated(inner: Recipe, count: int, separator: str, chars_max: int, index: int) -> str:
    one = text_of(inner, chars_max, index)
    _fits(count * (len(one) + len(separator)), 2 * chars_max)
    if INDEX not in json.dumps(inner, ensure_ascii=False):
        return separator.join([one] * count)
    return separator.join(text_of(inner, chars_max, number) for number in range(count))


def _fits(chars: int, chars_max: int) -> None:
    if chars > chars_max:
        raise TooLongError


def _recipes(parts: Sequence[object]) -> Iterator[Recipe]:
    return (part for part in parts if isinstance(part, str | list))


def changed(
    recipe: Recipe, others: Sequence[Recipe], atoms: Sequence[str], chance: random.Random
) -> Recipe:
    """Another recipe, which differs in one place."""
    places = list(_places(recipe))
    place = chance.choice(places)
    return _put(recipe, place, _other(_at(recipe, place), others, atoms, chance))


def _other(
    found: Recipe, others: Sequence[Recipe], atoms: Sequence[str], chance: random.Random
) -> Recipe:
    if isinstance(found, list) and found[0] in _COUNTED and chance.random() < 0.6:
        return _counted_otherwise(found, chance)
    match chance.randrange(6):
        case 0:
            return chance.choice(atoms)
        case 1:
            return ["all", found, chance.choice(["", ","]), chance.choice(atoms)]
        case 2:
            return ["times", found, chance.choice([2, 8, 64, 512, 4096]), chance.choice(["", ","])]
        case 3:
            opening, closing = chance.choice(_NESTINGS)
            return ["nested", opening, found, closing, chance.choice([1, 2, 8, 30, 90])]
        case 4:
            other = chance.choice(others)
            return _at(other, chance.choice(list(_places(other))))
        case _:
            inner = [*_recipes(found[1:])] if isinstance(found, list) else []
            return chance.choice(
                inner or [found.replace(INDEX, "0") if isinstance(found, str) else found]
            )


def _counted_otherwise(found: list[Recipe | int], chance: random.Random) -> Recipe:
    at = _COUNTED[str(found[0])]
    count = found[at] if isinstance(found[at], int) else 1
    assert isinstance(count, int)
    count = chance.choice([count * 2, count * 5 // 4 + 1, count * 9 // 10, count // 2, count + 1])
    return [*found[:at], min(count, COUNT_MAX), *found[at + 1 :]]


def _places(recipe: Recipe, here: tuple[int, ...] = ()) -> Iterator[tuple[int, ...]]:
    yield here
    if isinstance(recipe, list):
        for number, part in enumerate(recipe):
            is_text = isinstance(part, str) and number and recipe[0] in ("all", "times")
            is_separator = recipe[0] == "times" and number == 3
            if isinstance(part, list) or (isinstance(part, str) and is_text and not is_separator):
                yield from _places(part, (*here, number))
            elif isinstance(part, str) and recipe[0] == "nested" and number == 2:
                yield (*here, number)


def _at(recipe: Recipe, place: Sequence[int]) -> Recipe:
    for number in place:
        assert isinstance(recipe, list)
        inner = recipe[number]
        assert not isinstance(inner, int)
        recipe = inner
    return recipe


def _put(recipe: Recipe, place: Sequence[int], other: Recipe) -> Recipe:
    if not place:
        return other
    assert isinstance(recipe, list)
    inner = recipe[place[0]]
    assert not isinstance(inner, int)
    return [*recipe[: place[0]], _put(inner, place[1:], other), *recipe[place[0] + 1 :]]

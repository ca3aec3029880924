"""How long texts and lists may be: the tightest of the rules that a provider is told."""

from collections.abc import Mapping

from services.worker.dialects.compiler.parsing.subschemas import Subschemas
from services.worker.dialects.compiler.shapes.notes import Notes
from services.worker.dialects.compiler.shapes.shape import JsonObject

LIST_SIZES = ("minItems", "maxItems")
TEXT_LENGTHS = ("minLength", "maxLength")


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

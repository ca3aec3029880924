"""Parses a schema's rules about objects."""

from answerbus.problems import pointer
from services.worker.core.json_schema.keywords import JsonObject
from services.worker.dialects.compiler.parsing.lists import Read
from services.worker.dialects.compiler.parsing.scalars import any_of_type, description
from services.worker.dialects.compiler.parsing.subschemas import Node, Subschema, Subschemas
from services.worker.dialects.compiler.shapes.notes import Notes
from services.worker.dialects.compiler.shapes.rules import Rules
from services.worker.dialects.compiler.shapes.shape import Member, Never, Object, Plain, Shape, Text

# Small models see nothing but this name. Of a dozen that were tried with one it is the only name
# that kept them from writing prose here.
REST_NAME = "null_or_extra_json"
_MISPARSED = frozenset('"\\]^')  # by llama.cpp, in a name that others may be beside


def read_object(
    subschemas: Subschemas, read: Read, free: Text | Plain, rules: Rules, notes: Notes
) -> Shape:
    """An object of named members; any object, or JSON text, where no member is known by name."""
    names, required = _names(subschemas), _required(subschemas)
    is_open = not any(_is_closed(atom) for atom in subschemas)
    is_carried = is_open and not rules.verbatim
    if not names and is_carried:
        return free
    _note_others(subschemas, notes, is_carried=is_carried)
    others = read(_others(subschemas)) if is_open and rules.verbatim else Never()
    if not isinstance(others, Never) and not _have_room(names, rules):
        _note_all(subschemas, notes)
        return any_of_type("object", subschemas)
    members = [
        Member(name, read(_nodes(subschemas, name)), optional=name not in required)
        for name in names
    ]
    impossible = [member for member in members if isinstance(member.shape, Never)]
    if not required.keys() <= {*names} or any(not member.optional for member in impossible):
        return Never()
    if impossible and is_open:
        notes.not_enforced("properties", subschemas[0].path)  # they would be taken for others
    if not names and isinstance(others, Plain) and others.is_anything:
        return any_of_type("object", subschemas)
    omits = rules.omits_optional  # such providers write what is required first
    possible = [member for member in members if not isinstance(member.shape, Never)]
    possible.sort(key=lambda member: (not is_tag(member), omits and member.optional))
    rest = unused(REST_NAME, set(names)) if is_carried else None
    return Object(tuple(possible), rest, description(subschemas), may_omit=omits, others=others)


def is_tag(member: Member) -> bool:
    """Whether a member only says which of several objects this is."""
    if member.optional or not isinstance(member.shape, Plain):
        return False
    values = member.shape.schema.get("enum")
    return isinstance(values, list) and len(values) == 1


def _properties(atom: Subschema) -> JsonObject:
    properties = atom.get("properties")
    return properties if isinstance(properties, dict) else {}


def _is_closed(atom: Subschema) -> bool:
    return atom.get("additionalProperties") is False and not atom.get("patternProperties")


def _required(subschemas: Subschemas) -> dict[str, None]:
    stated = (atom.get("required") for atom in subschemas)
    lists = (names for names in stated if isinstance(names, list))
    return {name: None for names in lists for name in names if isinstance(name, str)}


def _names(subschemas: Subschemas) -> list[str]:
    """The members known by name, in the order of the schema, without those that are ruled out."""
    named = {name: None for atom in subschemas for name in _properties(atom)} | _required(
        subschemas
    )
    closed = [_properties(atom) for atom in subschemas if _is_closed(atom)]
    return [name for name in named if all(name in properties for properties in closed)]


def _nodes(subschemas: Subschemas, name: str) -> list[Node]:
    """All that must hold for the member `name`."""
    step = pointer((name,))
    nodes = []
    for atom in subschemas:
        stated = _properties(atom).get(name)
        others = atom.get("additionalProperties")
        if isinstance(stated, dict | bool):
            nodes.append(Node(f"{atom.path}/properties{step}", stated))
        elif isinstance(others, dict) and not atom.get("patternProperties"):
            nodes.append(Node(f"{atom.path}/additionalProperties", others))
    return nodes


def _have_room(names: list[str], rules: Rules) -> bool:
    """Whether a grammar can distinguish `names` from all others, letter by letter."""
    chars = "".join(names)
    is_plain = chars.isprintable() and _MISPARSED.isdisjoint(chars)
    return is_plain and len(chars) <= rules.open_name_chars_max


def _others(subschemas: Subschemas) -> list[Node]:
    """All that must hold for members without a name of their own."""
    stated = [(atom, atom.get("additionalProperties")) for atom in subschemas]
    return [
        Node(f"{atom.path}/additionalProperties", others)
        for atom, others in stated
        if isinstance(others, dict) and not atom.get("patternProperties")
    ]


def _note_others(subschemas: Subschemas, notes: Notes, *, is_carried: bool) -> None:
    """The rules for members by pattern, or for those that travel in one place together."""
    for atom in subschemas:
        by_pattern = bool(atom.get("patternProperties"))
        others = atom.get("additionalProperties")
        if isinstance(others, dict) and (is_carried or by_pattern):
            notes.not_enforced("additionalProperties", atom.path)
        if by_pattern:
            notes.not_enforced("patternProperties", atom.path)


def _note_all(subschemas: Subschemas, notes: Notes) -> None:
    for atom in subschemas:
        for keyword in ("properties", "required", "additionalProperties"):
            if atom.get(keyword) not in (None, True):
                notes.not_enforced(keyword, atom.path)


def unused(name: str, taken: set[str]) -> str:
    """`name`, or one like it that is not taken."""
    while name in taken:
        name += "_"
    return name

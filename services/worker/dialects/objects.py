"""Reads what a schema says of objects."""

from services.worker.core.keywords import JsonObject
from services.worker.dialects.atoms import Atom, Atoms, Node
from services.worker.dialects.lists import Read
from services.worker.dialects.notes import Notes
from services.worker.dialects.rules import Rules
from services.worker.dialects.scalars import any_of, description
from services.worker.dialects.shape import Member, Never, Object, Plain, Shape, Text

# Small models see nothing but this name. Of a dozen that were tried with one it is the only name
# that kept them from writing prose here.
REST_NAME = "null_or_extra_json"


def read_object(atoms: Atoms, read: Read, free: Text | Plain, rules: Rules, notes: Notes) -> Shape:
    """An object of named members; any object, or JSON text, where no member is known by name."""
    names = _names(atoms)
    is_open = not any(_is_closed(atom) for atom in atoms)
    is_carried = is_open and not rules.verbatim
    others = _others(atoms, read, notes) if is_open and rules.verbatim else Never()
    if not names and is_carried:
        return free
    if not isinstance(others, Never) and not _have_room(names, rules):
        notes.not_enforced("properties", atoms[0].path)
        return any_of("object", atoms)
    if not names and isinstance(others, Plain) and others.is_anything:
        return any_of("object", atoms)
    required = _required(atoms)
    members = [
        Member(name, read(_nodes(atoms, name)), optional=name not in required) for name in names
    ]
    possible = [m for m in members if not (m.optional and isinstance(m.shape, Never))]
    omits = rules.omits_optional  # such providers write what is required first
    possible.sort(key=lambda member: (not is_tag(member), omits and member.optional))
    if is_carried:
        _note_rest(atoms, notes)
    rest = unused(REST_NAME, set(names)) if is_carried else None
    return Object(tuple(possible), rest, description(atoms), may_omit=omits, others=others)


def is_tag(member: Member) -> bool:
    """Whether a member only says which of several objects this is."""
    if member.optional or not isinstance(member.shape, Plain):
        return False
    values = member.shape.schema.get("enum")
    return isinstance(values, list) and len(values) == 1


def _properties(atom: Atom) -> JsonObject:
    properties = atom.get("properties")
    return properties if isinstance(properties, dict) else {}


def _is_closed(atom: Atom) -> bool:
    return atom.get("additionalProperties") is False and not atom.get("patternProperties")


def _required(atoms: Atoms) -> dict[str, None]:
    stated = (atom.get("required") for atom in atoms)
    lists = (names for names in stated if isinstance(names, list))
    return {name: None for names in lists for name in names if isinstance(name, str)}


def _names(atoms: Atoms) -> list[str]:
    """The members known by name, in the order of the schema, without those that are ruled out."""
    named = {name: None for atom in atoms for name in _properties(atom)} | _required(atoms)
    closed = [_properties(atom) for atom in atoms if _is_closed(atom)]
    return [name for name in named if all(name in properties for properties in closed)]


def _nodes(atoms: Atoms, name: str) -> list[Node]:
    """All that must hold for the member `name`."""
    step = name.replace("~", "~0").replace("/", "~1")
    nodes = []
    for atom in atoms:
        stated = _properties(atom).get(name)
        others = atom.get("additionalProperties")
        if isinstance(stated, dict | bool):
            nodes.append(Node(f"{atom.path}/properties/{step}", stated))
        elif isinstance(others, dict) and not atom.get("patternProperties"):
            nodes.append(Node(f"{atom.path}/additionalProperties", others))
    return nodes


def _have_room(names: list[str], rules: Rules) -> bool:
    """Whether a grammar can tell `names` from all others, which it does letter by letter."""
    most = rules.open_name_chars_max
    chars = "".join(names)
    return most is None or (len(chars) <= most and chars.isprintable() and not {*chars} & {*'"\\'})


def _others(atoms: Atoms, read: Read, notes: Notes) -> Shape:
    """What members without a name of their own must be."""
    nodes = []
    for atom in atoms:
        stated = atom.get("additionalProperties")
        if atom.get("patternProperties"):
            notes.not_enforced("patternProperties", atom.path)
        elif isinstance(stated, dict):
            nodes.append(Node(f"{atom.path}/additionalProperties", stated))
    return read(nodes)


def _note_rest(atoms: Atoms, notes: Notes) -> None:
    for atom in atoms:
        if isinstance(atom.get("additionalProperties"), dict):
            notes.not_enforced("additionalProperties", atom.path)
        if atom.get("patternProperties"):
            notes.not_enforced("patternProperties", atom.path)


def unused(name: str, taken: set[str]) -> str:
    """`name`, or one like it that is not taken."""
    while name in taken:
        name += "_"
    return name

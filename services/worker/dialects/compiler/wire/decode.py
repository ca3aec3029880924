"""Turns an answer as it was written on the wire into an answer to the resolved schema."""

from collections.abc import Iterator, Mapping

from pydantic import JsonValue

from answerbus import failure
from answerbus.failure import Problem
from answerbus.limits import EXCERPT_BYTES_MAX, NOTE_BYTES_MAX, NOTES_MAX, PROBLEMS_MAX
from answerbus.problems import kind_of, pointer
from answerbus.wire import clip
from services.worker.core.guard.effort import spend
from services.worker.core.schema.resolved import DecodedAnswer
from services.worker.dialects.compiler.parsing.choices import picked, same, type_of
from services.worker.dialects.compiler.parsing.freeform import NoJsonText, unpack
from services.worker.dialects.compiler.shapes.complexity import TooComplexError
from services.worker.dialects.compiler.shapes.shape import (
    Array,
    JsonObject,
    Member,
    Object,
    Plain,
    Shape,
    Shapes,
    Text,
    Union,
)

_Path = tuple[str | int, ...]
STEPS_MAX = 200_000  # some tenths of a second; unions without tags can take many
STEP_NS = 3_000
TEXT_NS, FAULT_NS = 5_000, 15_000  # of reading one JSON text, and of saying what is wrong with it
_STEPS_AT_ONCE = 500  # are paid for together
_MEMBERS_OF_STEP = 50  # of an object, if a value has none of them


class BranchMatcher:
    """Looks at one answer; counts its steps."""

    def __init__(self, shapes: Shapes) -> None:
        self._shapes = shapes
        self._steps = 0
        self._choices: dict[Plain, frozenset[str]] = {}
        self._unpacked: dict[str, JsonValue | NoJsonText] = {}
        self._tags: dict[Object, list[Member]] = {}

    def leaf(self, union: Union, value: JsonValue) -> Shape | None:
        """The first shape in a union that the value fits; None if there is none or no need.

        A provider that enforces little may leave members out, mistake the case of a value to choose
        from, or pack a declared member among the extra ones: such a fit is second best.
        """
        leaves = self._shapes.leaves(union)
        if all(isinstance(leaf, Plain) and not leaf.any_case for leaf in leaves):
            return None  # all scalars travel as they are
        exactly = self._first(leaves, value, exact=True)
        return exactly or self._first(leaves, value, exact=False)

    def carriers(self, union: Union) -> list[tuple[str, str]]:
        """The members that carry JSON text beside scalars, each with what is said of it."""
        return [
            (member.name, member.shape.hint)
            for leaf in self._shapes.leaves(union)
            if isinstance(leaf, Object) and leaf.is_carrier
            for member in leaf.members
            if isinstance(member.shape, Text)
        ]

    def packing(self, union: Union, value: JsonObject) -> list[Object]:
        """The objects that pack further members where `value` does."""
        leaves = self._shapes.leaves(union)
        return [leaf for leaf in leaves if isinstance(leaf, Object) and leaf.rest in value]

    def has_tags(self, shape: Object, value: JsonObject) -> bool:
        """Whether a value has what an object says that members must be, whatever else it is."""
        for member in self._tags_of(shape):
            found = value.get(member.name)
            is_left_out = member.optional and found is None
            if not is_left_out and not self._fits(member.shape, found, exact=False):
                return False
        return True

    def _tags_of(self, shape: Object) -> list[Member]:
        if shape not in self._tags:
            self._tags[shape] = [one for one in shape.members if self._is_tag(one.shape)]
        return self._tags[shape]

    def _is_tag(self, shape: Shape) -> bool:
        said = self._shapes.seen(shape)
        return isinstance(said, Plain) and "enum" in said.schema

    # A loop where `any` would do: a level of an answer may cost few frames of the stack only.

    def _first(self, leaves: list[Shape], value: JsonValue, *, exact: bool) -> Shape | None:
        for leaf in leaves:
            if self._fits(leaf, value, exact=exact):
                return leaf
        return None

    def _fits(self, shape: Shape, value: JsonValue, *, exact: bool) -> bool:
        self._step(1)
        shape = self._shapes.seen(shape)
        match shape, value:
            case (Plain(), _):
                meant = picked(shape, value) if not exact and isinstance(value, str) else value
                return bool(type_of(meant) & shape.types) and self._is_choice(shape, meant)
            case (Text(), str()):
                return True
            case (Union(), _):
                return self._first(self._shapes.leaves(shape), value, exact=exact) is not None
            case (Array(), list()):
                return all(self._fits(shape.items, item, exact=exact) for item in value)
            case (Object(), dict()):
                return self._object_fits(shape, value, exact=exact)
            case _:
                return False

    def _step(self, number: int) -> None:
        paid = self._steps // _STEPS_AT_ONCE
        self._steps += number
        spend((self._steps // _STEPS_AT_ONCE - paid) * _STEPS_AT_ONCE * STEP_NS)
        if self._steps > STEPS_MAX:
            raise TooComplexError("an answer whose tags say which alternative it is")

    def _object_fits(self, shape: Object, value: JsonObject, *, exact: bool) -> bool:
        names = value.keys()
        if not names <= shape.names or (exact and not shape.required <= names):
            return False
        if exact and self._packs_its_own(shape, value):
            return False
        self._step(len(shape.members) // _MEMBERS_OF_STEP)
        for member in shape.members:
            if value.get(member.name) is None and member.optional:
                continue
            if member.name not in names:
                return False
            if not self._fits(member.shape, value[member.name], exact=exact):
                return False
        return True

    def _packs_its_own(self, shape: Object, value: JsonObject) -> bool:
        """Whether further members are such as have a place of their own."""
        text = None if shape.rest is None else value.get(shape.rest)
        if not isinstance(text, str):
            return False
        if text not in self._unpacked:
            self._unpacked[text] = _unpacked(text)
        rest = self._unpacked[text]
        return isinstance(rest, dict) and not rest.keys().isdisjoint(shape.by_name)

    def _is_choice(self, shape: Plain, value: JsonValue) -> bool:
        choices = shape.schema.get("enum")
        if not isinstance(choices, list):
            return True
        if shape not in self._choices:
            self._choices[shape] = frozenset(map(same, choices))
        return same(value) in self._choices[shape]


def decode(
    shapes: Shapes, rewritten: frozenset[Shape], value: JsonValue, *, otherwise: bool = False
) -> DecodedAnswer:
    """The answer that was meant; what has none of the `rewritten` shapes means itself.

    An optional member that may be null has one way to be written for null and "left out". It is
    null where it was written, and left out where it was not; `otherwise` it is the other way.

    What is not as the wire schema says stays as it is: to find its faults is the validator's
    part. Only text that should be JSON and is not is a fault here.
    """
    decoder = _Decoder(shapes, rewritten, otherwise=otherwise)
    try:
        decoded = decoder.meant(shapes.root, value, ())
    except TooComplexError as error:
        return DecodedAnswer(
            failure.Invalid(problems=(Problem.of("", "too_costly", error.remedy),))
        )
    if decoder.problems:
        faults = tuple(decoder.problems)
        failed = failure.Invalid(problems=faults[:PROBLEMS_MAX])
        return DecodedAnswer(failed, partly=decoded, faults=faults)
    return DecodedAnswer(decoded, tuple(decoder.notes[:NOTES_MAX]))


class _Decoder:
    def __init__(self, shapes: Shapes, rewritten: frozenset[Shape], *, otherwise: bool) -> None:
        self.problems: list[Problem] = []
        self.notes: list[str] = []
        self._shapes, self._rewritten = shapes, rewritten
        self._otherwise = otherwise
        self._fitting = BranchMatcher(shapes)
        self._rewriting: dict[Object, bool] = {}

    def meant(self, shape: Shape, value: JsonValue, path: _Path) -> JsonValue:
        """The value that was meant at `path`."""
        shape = self._shapes.seen(shape)
        if shape not in self._rewritten:
            return value
        meant = self._branch(shape, value, path) if isinstance(shape, Union) else shape
        match meant, value:
            case (Text(), str()):
                return self._text(meant, value, path)
            case (Plain(), str()):
                return picked(meant, value)
            case (Array(), list()):
                return [self.meant(meant.items, item, (*path, i)) for i, item in enumerate(value)]
            case (Object(is_carrier=True, members=(carrier,)), dict()):
                return self._carried(shape, carrier, value[carrier.name], path)
            case (Object(), dict()):
                return self._object(meant, value, path)
            case _:
                return value

    def _branch(self, union: Union, value: JsonValue, path: _Path) -> Shape | None:
        """The branch that a value was written in, None if it is not written in any."""
        found = self._fitting.leaf(union, value)
        if found is not None or not isinstance(value, dict):
            return found
        for name, hint in self._fitting.carriers(union):
            if name in value:  # or it would pass for a free-form object of that member
                self.problems.append(_no_json_text((*path, name), hint, value[name]))
        return self._packing_branch(union, value, path)

    def _packing_branch(self, union: Union, value: JsonObject, path: _Path) -> Shape | None:
        """The object that a value of no branch is meant as, where it packs further members.

        It might satisfy the resolved schema as it is, and be published with their text in it.
        """
        packing = self._fitting.packing(union, value)
        meant = [leaf for leaf in packing if self._fitting.has_tags(leaf, value)]
        if len(meant) == 1 or not packing:
            return meant[0] if meant else None
        if not any(self._rewrites(leaf) for leaf in packing):
            return Object((), packing[0].rest)
        expected = "an object that is as one of the alternatives says"
        place = pointer((*path, str(packing[0].rest)))
        self.problems.append(
            Problem.of(place, "json_text", expected, found="members of none of them")
        )
        return None

    def _rewrites(self, shape: Object) -> bool:
        """Whether some of its members may mean another value than is written."""
        if shape not in self._rewriting:
            members = {self._shapes.seen(member.shape) for member in shape.members}
            # A choice in another case is none, and refused as it is.
            self._rewriting[shape] = any(
                inner in self._rewritten and not isinstance(inner, Plain) for inner in members
            )
        return self._rewriting[shape]

    def _text(self, shape: Text, text: str, path: _Path) -> JsonValue:
        value = _unpacked(text)
        if isinstance(value, NoJsonText) or not type_of(value) & shape.types:
            # Not every server shows a model the descriptions, where the hint is as well.
            self.problems.append(_no_json_text(path, shape.hint, text))
            return text
        return value

    def _carried(self, shape: Shape, carrier: Member, text: JsonValue, path: _Path) -> JsonValue:
        """The content of a carrier, or a scalar that belongs beside it, as it reads one way."""
        if isinstance(shape, Union) and isinstance(text, str):
            value = _unpacked(text)
            if not isinstance(value, NoJsonText):
                leaf = self._fitting.leaf(shape, value)
                if isinstance(leaf, Plain):
                    return self.meant(leaf, value, path)
        return self.meant(carrier.shape, text, (*path, carrier.name))

    def _object(self, shape: Object, value: JsonObject, path: _Path) -> JsonObject:
        members = shape.by_name
        read: JsonObject = {}
        for name, wire in value.items():
            member = members.get(name)
            if name == shape.rest or self._is_left_out(member, wire):
                continue
            read[name] = self.meant(member.shape, wire, (*path, name)) if member else wire
        if self._otherwise and shape.may_omit:
            read |= dict.fromkeys(self._left_out(shape, value))
        if shape.rest is not None:
            self._unpack_rest(read, value.get(shape.rest), members, (*path, shape.rest))
        return read

    def _is_left_out(self, member: Member | None, wire: JsonValue) -> bool:
        """Null says "left out" where it cannot be an answer itself."""
        if wire is not None or member is None or not member.optional:
            return False
        return self._otherwise or not self._shapes.accepts_null(member.shape)

    def _left_out(self, shape: Object, value: JsonObject) -> Iterator[str]:
        """The optional members that may be null and were not written."""
        for member in shape.members:
            is_written = member.name in value or not member.optional
            if not is_written and self._shapes.accepts_null(member.shape):
                yield member.name

    def _unpack_rest(
        self, read: JsonObject, text: JsonValue, members: Mapping[str, Member], path: _Path
    ) -> None:
        if text is None or text == "":
            return
        rest = _unpacked(text) if isinstance(text, str) else None
        # What is written as itself as well would be said twice.
        if isinstance(rest, dict) and not rest.keys() & (members.keys() | read.keys()):
            read.update(rest)
        elif isinstance(rest, dict) or _opens_an_object(text):
            expected = (
                "null, or JSON text of an object with members that have no place of their own"
            )
            self.problems.append(_no_json_text(path, expected, text))
        elif rest is not None or not isinstance(text, str):
            note = f"what the model wrote into `{pointer(path)}` was no member, and was dropped"
            self.notes.append(clip(note, NOTE_BYTES_MAX))


def _unpacked(text: str) -> JsonValue | NoJsonText:
    spend(TEXT_NS)
    return unpack(text)


def _no_json_text(path: _Path, expected: str, written: JsonValue) -> Problem:
    """The text written where JSON text belongs, and its fault."""
    spend(FAULT_NS)
    value = unpack(written) if isinstance(written, str) else None
    place = pointer(path)
    if not isinstance(written, str):
        return Problem.of(place, "json_text", expected, found=f"{kind_of(written)}, no text")
    if isinstance(value, NoJsonText):
        found = f"text that is not JSON from byte {value.position} on"
        at, excerpt = value.position, value.excerpt
    else:
        found, at = f"JSON text of {kind_of(value)} that has no place here", 0
        excerpt = clip(written, EXCERPT_BYTES_MAX // 2)
    return Problem.of(place, "json_text", expected, found=found, position=at, excerpt=excerpt)


def _opens_an_object(written: JsonValue) -> bool:
    """Whether members were meant, however they came out; else it is a way to say that none are."""
    if isinstance(written, str):
        return written.lstrip().startswith("{")
    return isinstance(written, dict)

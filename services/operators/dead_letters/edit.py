"""An operator's changes to requests before a replay: JSON Patches."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pydantic import JsonValue, TypeAdapter, ValidationError

from answerbus import json_text
from answerbus.dead_letter import PatchOperation
from answerbus.limits import KIB
from answerbus.problems import problems_of
from services.operators.dead_letters.patch import EditFault, patched, same
from services.operators.records.dead_letter_key import DeadLetterKey

OPERATIONS_MAX = 100  # of one dead letter
EDIT_BYTES_MAX = 256 * KIB  # of one dead letter's, since its Replayed keeps them
EDITS_BYTES_MAX = 32 * KIB * KIB
PROTECTED = ("kind", "request_id", "workflow_id", "replay", "resumed")
"""The request's id and workflow stay: a request of another workflow is another request."""

_VALUED = frozenset({"add", "replace", "test"})
_ALL: TypeAdapter[tuple[PatchOperation, ...]] = TypeAdapter(tuple[PatchOperation, ...])
_EACH: TypeAdapter[dict[str, tuple[PatchOperation, ...]]] = TypeAdapter(
    dict[str, tuple[PatchOperation, ...]]
)

Operations = tuple[PatchOperation, ...]


@dataclass(frozen=True, slots=True)
class Edits:
    """One patch for all dead letters, or one for each that is named; the others stay unchanged.

    Dead letters are named by id or by `<id>@<workflow>`.
    """

    for_all: Operations = ()
    by_dead_letter: Mapping[str, Operations] = field(default_factory=dict)

    def of(self, dead_letter: DeadLetterKey) -> Operations:
        """The operations on one dead letter's request."""
        by_id = self.by_dead_letter.get(dead_letter.dead_letter_id, self.for_all)
        return self.by_dead_letter.get(dead_letter.text, by_id)


def edits_of(text: bytes) -> Edits | EditFault:
    """Reads a JSON array of operations, or an object of such arrays by the ids of dead letters."""
    if len(text) > EDITS_BYTES_MAX:
        return EditFault(f"edits have at most {EDITS_BYTES_MAX:,} bytes")
    parsed = json_text.parse(text)
    if isinstance(parsed, json_text.NotJson):
        return EditFault(f"this is not {parsed.reason} (byte {parsed.position})")
    try:
        if isinstance(parsed.value, list):
            edits = Edits(for_all=_ALL.validate_json(text))
        else:
            edits = Edits(by_dead_letter=_EACH.validate_json(text))
    except ValidationError as error:
        first = problems_of(error, parsed.value)[0]
        return EditFault(f"{first.path or 'all of it'}: {first.expected}")
    return _fault(edits) or edits


def replacing(path: str, value: JsonValue) -> PatchOperation:
    """The operation that puts another value where there is one."""
    return PatchOperation(op="replace", path=path, value=value)


def edited(
    request: Mapping[str, JsonValue], operations: Sequence[PatchOperation]
) -> dict[str, JsonValue] | EditFault:
    """A request's JSON object after the operations; PROTECTED members must come out the same."""
    found = patched(dict(request), operations)
    if isinstance(found, EditFault):
        return found
    if not isinstance(found, dict):
        return EditFault("the edited request is not a JSON object")
    for name in PROTECTED:
        is_kept = (name in found) == (name in request)
        if not is_kept or not same(found.get(name), request.get(name)):
            return EditFault(f"`{name}` may not be edited: publish a new request instead")
    return found


def _fault(edits: Edits) -> EditFault | None:
    for operations in (edits.for_all, *edits.by_dead_letter.values()):
        if len(operations) > OPERATIONS_MAX:
            return EditFault(f"an edit has at most {OPERATIONS_MAX} operations")
        size = sum(len(operation.model_dump_json().encode()) for operation in operations)
        if size > EDIT_BYTES_MAX:
            return EditFault(f"an edit has at most {EDIT_BYTES_MAX:,} bytes")
        for number, operation in enumerate(operations, start=1):
            given = operation.model_fields_set
            needed = "value" if operation.op in _VALUED else "from"
            if operation.op != "remove" and needed.replace("from", "from_") not in given:
                return EditFault(f"operation {number} ({operation.op}) needs `{needed}`")
    return None

"""`best_of`: the selection among proposals, as a request for one of their ids; pure.

The selection is the run's own last step: so it has the attempt that the proposals left to it, and
the answer that is chosen has an attempt of the run behind it, as each result has.
"""

import json
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from pydantic import JsonValue

from answerbus.answers.selection import SELECTION
from answerbus.failure import Invalid
from answerbus.limits import REASON_BYTES_MAX
from answerbus.request import Fact, Message, Request
from answerbus.wire import clip
from services.worker.core.guard.shown_value import shown_value
from services.worker.core.run.proposing import Candidate
from services.worker.core.run.run import Run
from services.worker.core.run.transcript_draft import BYTES_PER_TOKEN
from services.worker.core.schema.resolved import (
    Accepted,
    Chosen,
    JsonObject,
    ResolvedSchema,
    Unusable,
    as_it_is,
    without_notes,
)
from services.worker.core.schema.validator import SchemaValidator, compile_schema

CHOOSE = (
    "Several assistants have proposed an answer to the task below. You do not answer it: you "
    "compare the proposals, say in `reason` why one of them is the best, and name it in "
    "`element_id`, letter by letter as it was given."
)
FRAME_BYTES = 256  # around each proposal: its name, its fence, its id in the schema
SHARE_BYTES_MIN = 64  # of a proposal is always shown
CHOOSE_NOW = "Choose now. The proposals are {names}."


def choosing(
    request: Request, run: Run, candidates: Sequence[Candidate], room_tokens: int | None = None
) -> Request:
    """The selector's input: the task, the criteria, and each proposal as data.

    Proposals are shortened to what a prompt of `room_tokens` has room for beside the task.
    """
    context, definition = request.context, run.definition
    criteria = definition.best_of.criteria if definition.best_of else ""
    task = f"The task:\n{definition.instructions}\n\n{context.instructions}"
    names = ", ".join(candidate.reference for candidate in candidates)
    shown_context = context.model_copy(
        update={
            "instructions": "\n\n".join(part for part in (CHOOSE, criteria, task) if part),
            "messages": (
                *context.messages,
                Message(role="user", content=CHOOSE_NOW.format(names=names), trust="trusted"),
            ),
        }
    )
    room_bytes = definition.transcript_bytes_max
    if room_tokens is not None:
        beside = len(shown_context.model_dump_json().encode()) + FRAME_BYTES * len(candidates)
        room_bytes = min(room_bytes, room_tokens * BYTES_PER_TOKEN - beside)
    share = max(room_bytes // max(len(candidates), 1), SHARE_BYTES_MIN)
    shown = tuple(
        Fact(name=candidate.reference, value=_shown(candidate.answer, share))
        for candidate in candidates
    )
    shown_context = shown_context.model_copy(update={"facts": (*context.facts, *shown)})
    return request.model_copy(update={"context": shown_context})


def _shown(answer: JsonValue, limit: int) -> JsonValue:
    """Of a long proposal the beginning is shown, so that each has the same share of the prompt."""
    size = _prompt_bytes(answer)
    if size <= limit:
        return answer
    text = answer if isinstance(answer, str) else json.dumps(answer, ensure_ascii=False)
    begins = clip(text, limit)
    escaped = _prompt_bytes({"begins": begins})  # quotes and line ends take two bytes each
    return {"bytes": size, "begins": clip(begins, max(limit * limit // escaped, SHARE_BYTES_MIN))}


def _prompt_bytes(value: JsonValue) -> int:
    """About what a value takes in a prompt, which shows it with line ends."""
    return len(shown_value(value).encode(errors="replace"))


def selection_schema(
    final: ResolvedSchema, candidates: Sequence[Candidate]
) -> ResolvedSchema | Unusable:
    """The authority on a selection: what is read is the answer that was chosen."""
    schema: JsonObject = {
        "type": "object",
        "properties": {
            "reason": {"type": "string"},
            "element_id": {
                "type": "string",
                "enum": [candidate.reference for candidate in candidates],
            },
        },
        "required": ["reason", "element_id"],
        "additionalProperties": False,
    }
    form = compile_schema(schema)
    if not isinstance(form, SchemaValidator):
        return Unusable(form)
    return replace(
        final,
        name=SELECTION.name,
        description=SELECTION.summary,
        schema=schema,
        read=partial(_read, form, {candidate.reference: candidate for candidate in candidates}),
        audit_only=frozenset[str](),
        from_text=None,
        from_loose=as_it_is,
        add_notes=without_notes,
        shown=as_it_is,
        is_answer=False,
    )


def _read(
    form: SchemaValidator, candidates: dict[str, Candidate], value: JsonValue
) -> Accepted | Invalid:
    if problems := form.problems(value):
        return Invalid(problems=problems)
    fields = value if isinstance(value, dict) else {}
    reason = clip(str(fields.get("reason")), REASON_BYTES_MAX)
    candidate = candidates[str(fields.get("element_id"))]
    return Accepted(candidate.answer, chosen=Chosen(candidate.call_id, candidate.reference, reason))

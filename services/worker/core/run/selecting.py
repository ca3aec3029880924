"""`best_of`: the selection among proposals, as a request whose answer is one of their ids; pure.

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
from services.worker.core.run.proposing import Candidate
from services.worker.core.run.run import Run
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
CHOOSE_NOW = "Choose now. The proposals are {names}."


def choosing(request: Request, run: Run, candidates: Sequence[Candidate]) -> Request:
    """What the selector is told: the task, what is good, and each proposal as data."""
    context, definition = request.context, run.definition
    criteria = definition.best_of.criteria if definition.best_of else ""
    task = f"The task:\n{definition.instructions}\n\n{context.instructions}"
    names = ", ".join(one.reference for one in candidates)
    share = definition.transcript_bytes_max // max(len(candidates), 1)
    shown = tuple(Fact(name=one.reference, value=_shown(one.answer, share)) for one in candidates)
    told = context.model_copy(
        update={
            "instructions": "\n\n".join(part for part in (CHOOSE, criteria, task) if part),
            "facts": (*context.facts, *shown),
            "messages": (
                *context.messages,
                Message(role="user", content=CHOOSE_NOW.format(names=names), trust="trusted"),
            ),
        }
    )
    return request.model_copy(update={"context": told})


def _shown(answer: JsonValue, limit: int) -> JsonValue:
    """A long proposal is told by its beginning, so that each has the same share of the prompt."""
    text = json.dumps(answer, ensure_ascii=False)
    size = len(text.encode())
    return answer if size <= limit else {"bytes": size, "begins": clip(text, limit)}


def selection_schema(
    final: ResolvedSchema, candidates: Sequence[Candidate]
) -> ResolvedSchema | Unusable:
    """The authority on a selection: what is read is the answer that was chosen."""
    schema: JsonObject = {
        "type": "object",
        "properties": {
            "reason": {"type": "string"},
            "element_id": {"type": "string", "enum": [one.reference for one in candidates]},
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
        read=partial(_read, form, {one.reference: one for one in candidates}),
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
    said = value if isinstance(value, dict) else {}
    reason = clip(str(said.get("reason")), REASON_BYTES_MAX)
    candidate = candidates[str(said.get("element_id"))]
    return Accepted(candidate.answer, chosen=Chosen(candidate.call_id, candidate.reference, reason))

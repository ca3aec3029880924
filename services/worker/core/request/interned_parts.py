"""Parts of requests that many have alike, held once: a lane may hold thousands of requests."""

from functools import lru_cache

from answerbus.request import ContractRef, Request, TextRef
from answerbus.wire import Wire

PARTS_MAX = 1_024


def with_interned_parts(request: Request) -> Request:
    """The same request; of schema reference, budget and policy, each half a KiB, one for all."""
    parts: dict[str, Wire] = {"budget": request.budget, "policy": request.policy}
    if isinstance(request.answer_schema, ContractRef | TextRef):
        parts["answer_schema"] = request.answer_schema
    stated = {name: _one(part) for name, part in parts.items() if name in request.model_fields_set}
    return request.model_copy(update=stated)


@lru_cache(PARTS_MAX)
def _one(part: Wire) -> Wire:
    return part

"""Children of runs: recognizes them, makes their requests, and reports their ends; pure."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import chain, count, islice
from math import ceil

from pydantic import JsonValue
from pydantic_core import from_json

from answerbus.agent import AgentRef, Parent
from answerbus.budget import Usage
from answerbus.call_id import call_name
from answerbus.call_outcome import (
    CallOk,
    CallOutcome,
    ChildDeadLetter,
    ChildDeclined,
)
from answerbus.dead_letter import DeadLetter
from answerbus.failure import Problem
from answerbus.json_values import has_more_values
from answerbus.limits import (
    DEPTH_MAX,
    PROBLEMS_MAX,
    REQUEST_BYTES_MAX,
    REQUEST_ID_CHARS_MAX,
    REQUEST_VALUES_MAX,
    RUN_TTL_S_MAX,
    TOOL_RESULT_BYTES_MAX,
    TTL_S_MAX,
)
from answerbus.outcome import Origin, Refusal, Result, UnvalidatedResult
from answerbus.private.runs import RunChildRecord
from answerbus.request import Context, Fact, InlineRef, Message, Request
from answerbus.wire import to_utc_milliseconds
from services.text.digest import canonical_members, members_digest, text_digest
from services.text.nesting import nests_deeper
from services.worker.core.guard.sizes import json_bytes
from services.worker.core.run.delegation import DelegateArgs, depth_of, read_args, used
from services.worker.core.run.made_child import Children, MadeChild, child_key, with_members
from services.worker.core.run.proposing import proposal_of, proposing_until
from services.worker.core.run.run import PROPOSE, Run, ToolCall
from services.worker.core.run.tool_outcome import VALUE_DEPTH_MAX, too_large

Ended = Result[JsonValue] | UnvalidatedResult | Refusal | DeadLetter
"""The outcomes that end a request."""


@dataclass(frozen=True, slots=True)
class ChildOutcome:
    """How the child of a call ended; `spent` attempts and `usage` are of it and all below it."""

    call_id: str
    outcome: Ended
    spent: int
    usage: Usage


PART = (
    "You work on one part of a larger task. The user's message says which. Where you cannot do it, "
    "say so."
)
_DIGEST_CHARS = 40
_OWN = {"request_id", "ttl_s", "parent"}  # of each child, which are known when it is asked
_LARGEST_NAMED = 3  # of the facts that are too large for a request


def may_ask(above: Request, run: Run | None, request: Request) -> bool:
    """Whether an open request is asked by the run `above`: its call is open, and makes it."""
    parent = request.parent
    if parent is None or run is None or above.workflow_id != request.workflow_id:
        return False
    if depth_of(above) >= DEPTH_MAX or above.account_id != request.account_id:
        return False
    call = run.open_call(parent.call_id)
    if call is None or call.record is None or not call.is_known_to_server:
        return False
    return call.record.child == request.request_id if call.asks_child else True


def adopted(request: Request, above: Request, left_s: int) -> Request:
    """A request as a child of the run `above`, on its account, even if it said another one.

    Its publisher knows the run and the call; the lane knows all else. The run waits for it, so
    that it has only the time that is left to the run.
    """
    if request.parent is None:
        raise ValueError("a child names its parent")
    return request.model_copy(
        update={
            "parent": _parent(above, request.parent.call_id, None),
            "replay": above.replay,
            "ttl_s": min(request.ttl_s, max(left_s, 1)),
        }
    )


def child_of(above: Request, run: Run, args: DelegateArgs) -> Request | tuple[Problem, ...]:
    """The request of a call of `delegate`, without id, time and parent; or a fault."""
    if problems := tuple(args.too_large()):
        return problems
    found = list(used(above, run, args))
    wrong = (one for one in found if isinstance(one, Problem))  # `use` may have 32
    if problems := tuple(islice(wrong, PROBLEMS_MAX)):
        return problems
    facts = tuple(one for one in found if isinstance(one, Fact))
    if any(nests_deeper(fact.value, VALUE_DEPTH_MAX) for fact in facts):
        return (Problem.of("/use", "too_deep", f"at most {VALUE_DEPTH_MAX} levels of nesting"),)
    if nests_deeper(args.json_schema, VALUE_DEPTH_MAX):
        expected = f"at most {VALUE_DEPTH_MAX} levels of nesting"
        return (Problem.of("/json_schema", "too_deep", expected),)
    request = _request(above, args, facts)
    text = request.model_dump_json().encode()
    if len(text) > REQUEST_BYTES_MAX or has_more_values(text, REQUEST_VALUES_MAX):
        return (Problem.of("/use", "too_large", _less(facts)),)
    return request


def made(
    above: Request, run: Run, args: Mapping[str, JsonValue]
) -> MadeChild | tuple[Problem, ...]:
    """The child of a call of `delegate` with these arguments; or a fault."""
    request = child_of(above, run, read_args(args))
    return with_members(request) if isinstance(request, Request) else request


def _less(facts: tuple[Fact, ...]) -> str:
    """What a model can do about it: it knows no sizes."""
    sizes = [(fact.name, json_bytes(fact.value)) for fact in facts]
    sizes.sort(key=lambda one: -one[1])
    largest = "; ".join(f"{name}: {size:,}" for name, size in sizes[:_LARGEST_NAMED])
    most = f"{REQUEST_BYTES_MAX:,} bytes, and {REQUEST_VALUES_MAX:,} JSON values"
    message = f"less: a request has at most {most}"
    return f"{message} ({largest})" if largest else message


def child_record(
    above: Request,
    run: Run,
    call: ToolCall,
    origin: Origin,
    deadline: datetime,
    now: datetime,
    is_taken: Callable[[str], bool],
    children: Children,
) -> RunChildRecord:
    """The child that an open call asks now; its deadline is that of its run, or sooner."""
    child = _prepared(above, run, call, children)
    if call.asked.tool == PROPOSE:
        deadline = proposing_until(now, deadline)
    # A worker's time may be behind that of the broker which took the request of its run.
    ttl_s = min(max(ceil((deadline - now).total_seconds()), 1), RUN_TTL_S_MAX)
    # Not before its run: what was cancelled until then is not this.
    begins = max(deadline - timedelta(seconds=ttl_s), origin.timestamp)
    if child.request.agent is None and ttl_s > TTL_S_MAX:
        ttl_s, begins = TTL_S_MAX, now
    request = child.request.model_copy(
        update={
            "request_id": child_name(call.asked.call_id, is_taken),
            "ttl_s": ttl_s,
            "parent": _parent(above, call.asked.call_id, call.asked.cap),
        }
    )
    own = canonical_members(from_json(request.model_dump_json(include=_OWN)))
    return RunChildRecord(
        workflow_id=request.workflow_id,
        request=request,
        body_digest=members_digest({**child.members, **own}),
        origin=origin.model_copy(update={"timestamp": to_utc_milliseconds(begins)}),
    )


def _prepared(above: Request, run: Run, call: ToolCall, children: Children) -> MadeChild:
    """The child of a call; one that had to wait for its turn is made now."""
    args = call.asked.args
    child = children.get(child_key(args))
    if child is None and call.asked.tool == PROPOSE:
        child = with_members(proposal_of(above, run, args))
    child = child or made(above, run, args)
    if not isinstance(child, MadeChild):
        raise TypeError("a call that cannot be asked has ended with its step")
    return child


def child_name(call_id: str, is_taken: Callable[[str], bool]) -> str:
    """The id of the child of a call, in its workflow: the call's name, if short and not taken."""
    name = call_name(call_id)
    short = name if len(name) <= REQUEST_ID_CHARS_MAX - 4 else _digest(name)
    numbered = (f"{short}.{number}" for number in count(2))
    names = (one if len(one) <= REQUEST_ID_CHARS_MAX else _digest(one) for one in numbered)
    return next(name for name in chain((short,), names) if not is_taken(name))


def outcome_of(ended: Ended) -> CallOutcome:
    """The result of a child as its run sees it."""
    match ended:
        case Result():
            return _value(ended.answer)
        case Refusal():
            return ChildDeclined(reason=ended.reason)
        case DeadLetter():
            return ChildDeadLetter(cause=ended.cause.kind)
        case UnvalidatedResult():
            return ChildDeadLetter(cause="invalid_answer")


def _value(answer: JsonValue) -> CallOutcome:
    if json_bytes(answer) > TOOL_RESULT_BYTES_MAX or nests_deeper(answer, VALUE_DEPTH_MAX):
        return too_large(answer)
    return CallOk(value=answer)


def _request(above: Request, args: DelegateArgs, facts: tuple[Fact, ...]) -> Request:
    return Request(
        request_id=above.request_id,
        workflow_id=above.workflow_id,
        answer_schema=InlineRef(
            name=args.name, description=args.description, json_schema=args.json_schema
        ),
        context=Context(
            instructions=PART,
            messages=(Message(role="user", content=args.instructions, trust="trusted"),),
            facts=facts,
        ),
        profile=args.profile or above.profile,
        budget=above.budget,
        agent=AgentRef(name=args.agent) if args.agent else None,
        labels=above.labels,
        replay=above.replay,
    )


def _parent(above: Request, call_id: str, cap: int | None) -> Parent:
    depth = depth_of(above) + 1
    return Parent(request_id=above.request_id, call_id=call_id, depth=depth, floor=depth, cap=cap)


def _digest(name: str) -> str:
    return f"child.{text_digest(name).removeprefix('sha256:')[:_DIGEST_CHARS]}"

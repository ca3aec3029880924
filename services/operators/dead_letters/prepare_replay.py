"""Makes a request from a dead letter: a new id, a new account, and a link to the dead letter."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Literal

from pydantic import JsonValue
from pydantic_core import to_json

from answerbus.account_id import replay_account, short_digest
from answerbus.call_outcome import CallOk, ResultTooLarge
from answerbus.dead_letter import ConflictingId, DeadLetter, PatchOperation, Replayed
from answerbus.envelope import Undecodable, decode_request
from answerbus.json_values import has_more_values, signs_of_values
from answerbus.limits import (
    KIB,
    REASON_BYTES_MAX,
    REQUEST_BYTES_MAX,
    REQUEST_ID_CHARS_MAX,
    REQUEST_VALUES_MAX,
    TOOL_EXCERPT_BYTES_MAX,
)
from answerbus.request import Prior, Replay, Request
from answerbus.resumed_run import ResumedCall, ResumedRun, ResumedStep
from answerbus.wire import clip
from services.operators.dead_letters.edit import Edits, edited, replacing
from services.operators.dead_letters.past_run import NO_PAST, PastRun
from services.operators.dead_letters.patch import EditFault, same
from services.operators.explain import problem_text
from services.operators.records.dead_letter_key import DeadLetterKey
from services.text.digest import text_digest

ROUNDS_MAX = 5  # without force: before a sixth replay, look for the cause

# Of the steps that a replay takes over, where all are too many.
RESUMED_BYTES_MAX = 320 * KIB
RESUMED_VALUES_MAX = 12_000

RejectionCode = Literal[
    "no_request", "has_request", "edit", "invalid", "too_large", "cut", "gone", "unreadable",
    "rounds", "unknown_profile", "unknown_contract", "schema", "no_budget", "steps",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Rejection:
    """Why a dead letter is held back; `forcible` if an operator may insist."""

    code: RejectionCode
    text: str
    forcible: bool = False


@dataclass(frozen=True, slots=True)
class BudgetOverride:
    """A budget in place of the request's own, as far as it is given."""

    attempts: int | None = None
    tokens: int | None = None
    micro_usd: int | None = None


@dataclass(frozen=True, slots=True)
class ReplayOrder:
    """An order of an operator for the chosen dead letters.

    `restart`: runs start again, and call tools again; else they go on where they stopped.
    """

    by: str
    reason: str
    edits: Edits = field(default_factory=Edits)
    profile: str | None = None
    budget: BudgetOverride = BudgetOverride()
    keep_prior: bool = True
    restart: bool = False
    force: bool = False

    def operations(self, dead_letter: DeadLetterKey) -> tuple[PatchOperation, ...]:
        """All that is changed in a dead letter's request, as one patch, for the record, too."""
        changes: dict[str, str | int | None] = {
            "/profile": self.profile,
            "/budget/attempts": self.budget.attempts,
            "/budget/tokens": self.budget.tokens,
            "/budget/micro_usd": self.budget.micro_usd,
        }
        wanted = (replacing(path, value) for path, value in changes.items() if value is not None)
        return (*self.edits.of(dead_letter), *wanted)


@dataclass(frozen=True, slots=True)
class PreparedReplay:
    """The two records of one replay: they are written together or not at all.

    `past` is what its run had done, if it was one.
    """

    request: Request
    replayed: Replayed
    past: PastRun = NO_PAST


def prepare_replay(
    dead_letter: DeadLetter, order: ReplayOrder, at: datetime, past: PastRun = NO_PAST
) -> PreparedReplay | Rejection:
    """The dead letter's request, edited, as another request; a run goes on from its `past`.

    What earlier attempts came to is handed on, so that the model is shown it, unless the order says
    otherwise or the request would become too large with it.
    """
    request = dead_letter.request
    if request is None:
        return Rejection(
            "no_request", "The dead letter holds no request: export it, repair it, import it"
        )
    if request.workflow_id != dead_letter.workflow_id:  # what is replayed is noted by workflow
        return Rejection("unreadable", "Its request is of another workflow than itself")
    if dead_letter.round >= ROUNDS_MAX and not order.force:
        message = f"It was replayed {dead_letter.round} times already"
        return Rejection("rounds", message, forcible=True)
    if past.fault is not None and not order.restart:
        return Rejection("steps", f"Its run cannot go on, {past.fault}. --restart starts it over")
    resumed = None if order.restart else past.resumed
    prior = dead_letter.prior if order.keep_prior else ()
    found = _edited(dead_letter, _with(request, prior, resumed), order, at)
    if isinstance(found, Rejection) and found.code == "too_large":
        found = _edited(dead_letter, _with(request, (), resumed), order, at)
    if isinstance(found, Rejection) and found.code == "too_large" and resumed:
        shorter = _with(request, (), shortened(resumed))
        found = _edited(dead_letter, shorter, order, at)
    return found if isinstance(found, Rejection) else replace(found, past=past)


def _with(request: Request, prior: Sequence[Prior], resumed: ResumedRun | None) -> Request:
    """Without its parent: the call that it was for has ended with the dead letter."""
    return request.model_copy(update={"prior": tuple(prior), "resumed": resumed, "parent": None})


def prepare_repair(
    dead_letter: DeadLetter, repaired: bytes, order: ReplayOrder, at: datetime
) -> PreparedReplay | Rejection:
    """A repaired record in place of the one that was no request.

    It keeps its request id, for which someone may be waiting; but one whose id is known with
    another body, or has ended, gets an id of its own.
    """
    if dead_letter.request is not None:
        return Rejection(
            "has_request", "The dead letter holds its request: replay it, with an edit"
        )
    request = _read(repaired)
    if isinstance(request, Rejection):
        return request
    rounds = max(dead_letter.round, request.replay.round if request.replay else 0)
    replay = _replay(dead_letter, rounds + 1, request.workflow_id, order.by, is_edited=True)
    new_id = request.request_id
    if isinstance(dead_letter.cause, ConflictingId) or dead_letter.account is not None:
        new_id = _id(request, f".replay.{replay.round}.{short_digest(dead_letter.dead_letter_id)}")
    body = {**request.model_dump(mode="json"), "request_id": new_id}
    return _prepared(body, replay, (), order, at)


def _edited(
    dead_letter: DeadLetter, request: Request, order: ReplayOrder, at: datetime
) -> PreparedReplay | Rejection:
    operations = order.operations(DeadLetterKey.of(dead_letter))
    before = request.model_dump(mode="json")
    after = edited(before, operations)
    if isinstance(after, EditFault):
        return Rejection("edit", f"The edit does not fit: {after.reason}")
    if request.resumed and _agent_name(after) != _agent_name(before):
        message = "Another agent cannot go on with these steps: --restart starts over"
        return Rejection("edit", message)
    round_, is_edited = dead_letter.round + 1, not same(after, before)
    replay = _replay(dead_letter, round_, request.workflow_id, order.by, is_edited=is_edited)
    body = {**after, "request_id": _id(request, f".replay.{round_}")}
    return _prepared(body, replay, operations, order, at)


def _agent_name(body: Mapping[str, JsonValue]) -> JsonValue:
    agent = body.get("agent")
    return agent.get("name") if isinstance(agent, dict) else None


def _prepared(
    body: Mapping[str, JsonValue],
    replay: Replay,
    operations: tuple[PatchOperation, ...],
    order: ReplayOrder,
    at: datetime,
) -> PreparedReplay | Rejection:
    request = _read(to_json({**body, "replay": replay.model_dump(mode="json")}))
    if isinstance(request, Rejection):
        return request
    replayed = Replayed(
        dead_letter_id=replay.dead_letter_id,
        workflow_id=request.workflow_id,
        request_id=request.request_id,
        round=replay.round,
        by=replay.by,
        reason=clip(order.reason, REASON_BYTES_MAX),
        edit=operations,
        at=at,
    )
    return PreparedReplay(request, replayed)


def _read(text: bytes) -> Request | Rejection:
    """A request as the workers will read it."""
    if len(text) > REQUEST_BYTES_MAX or has_more_values(text, REQUEST_VALUES_MAX):
        most = f"{REQUEST_BYTES_MAX:,} bytes or {REQUEST_VALUES_MAX:,} JSON values"
        return Rejection("too_large", f"The request would have more than {most}")
    received = decode_request(text)
    if isinstance(received, Undecodable):
        return Rejection("invalid", f"Invalid request: {problem_text(received.problems[0])}")
    if received.unknown_fields:
        return Rejection("invalid", f"Requests have no {', '.join(received.unknown_fields)}")
    return received.request


def _replay(
    dead_letter: DeadLetter, round_: int, workflow_id: str, by: str, *, is_edited: bool
) -> Replay:
    return Replay(
        dead_letter_id=dead_letter.dead_letter_id,
        round=round_,
        account=replay_account(workflow_id, dead_letter.dead_letter_id),
        by=clip(by, REASON_BYTES_MAX),
        edited=is_edited,
    )


def _id(request: Request, suffix: str) -> str:
    """`<id>.replay.2`: made of the first request's id in every round."""
    first = request.request_id
    if request.replay:
        first = first.removesuffix(f".replay.{request.replay.round}")
    if len(first) + len(suffix) > REQUEST_ID_CHARS_MAX:
        digest = "-" + short_digest(first)
        first = first[: REQUEST_ID_CHARS_MAX - len(suffix) - len(digest)] + digest
    return first + suffix


def shortened(resumed: ResumedRun) -> ResumedRun:
    """The oldest results by their size and beginning, until the steps fit or all are cut.

    The newest are the ones that the model has worked least with.
    """
    whole = resumed.model_dump_json().encode()
    bytes_over = len(whole) - RESUMED_BYTES_MAX
    values_over = signs_of_values(whole) - RESUMED_VALUES_MAX
    steps = list[ResumedStep]()
    for step in resumed.steps:
        calls = list[ResumedCall]()
        for call in step.calls:
            shorter = _cut(call) if bytes_over > 0 or values_over > 0 else call
            before, after = (one.outcome.model_dump_json().encode() for one in (call, shorter))
            bytes_over -= len(before) - len(after)
            values_over -= signs_of_values(before) - signs_of_values(after)
            calls.append(shorter)
        steps.append(step.model_copy(update={"calls": tuple(calls)}))
    return resumed.model_copy(update={"steps": tuple(steps)})


def _cut(call: ResumedCall) -> ResumedCall:
    if not isinstance(call.outcome, CallOk):
        return call
    text = json.dumps(call.outcome.value, ensure_ascii=False)
    size = len(text.encode(errors="replace"))
    if size <= TOOL_EXCERPT_BYTES_MAX:
        return call
    excerpt = clip(text, TOOL_EXCERPT_BYTES_MAX)
    too_large = ResultTooLarge(bytes=size, excerpt=excerpt, digest=text_digest(text))
    return call.model_copy(update={"outcome": too_large})

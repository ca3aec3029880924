"""Events made by hand: committed examples with other members, hashed and keyed as they ought."""

import json
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from tests.chaos.audit.canonical import digest
from tests.chaos.audit.history import Call
from tests.chaos.audit.record import Record
from tests.chaos.audit.traces import HEADER, span_id

Json = dict[str, Any]

PREFIX = "made"
DIGEST = "sha256:" + "0" * 64  # of nothing
EXAMPLES = Path(__file__).parents[3] / "contracts" / "examples"
NO_LIMIT = {"attempts": 1_000_000, "tokens": None, "micro_usd": None}
EXAMPLE_OF = {
    "request": "minimal",
    "result": "text",
    "unvalidated_result": "malformed",
    "refusal": "by_provider",
    "retry_request": "invalid",
    "dead_letter": "deadline_passed",
    "attempt": "result",
    "account": "new",
    "closed": "origin",
    "run": "malformed_retry",
    "run_call": "called",
    "run_child": "delegated",
    "step": "calls",
    "tool_call": "at_least_once",
    "tool_result": "ok",
    "tool_ended": "ok",
    "control_applied": "approved",
}
TRACE = "a" * 32
HASHED = {"attempt", "step", "tool_ended"}
TOPIC_OF = {
    "result": "results",
    "unvalidated_result": "results",
    "refusal": "refusals",
    "retry_request": "retries",
    "dead_letter": "dead-letters",
    "attempt": "attempts",
    "account": "ledger",
    "closed": "ledger",
    "run": "runs",
    "run_call": "runs",
    "run_child": "runs",
    "step": "steps",
    "tool_call": "tools.orders",
    "tool_result": "tool-results",
    "tool_ended": "steps",
    "control_applied": "steps",
}
RUN = {
    "agent": {"name": "support", "version": 3, "digest": DIGEST},
    "steps": 0,
    "tool_calls": 0,
    "children": 0,
    "usage": {"input_tokens": None, "output_tokens": None, "micro_usd": None},
}
FAILURES: dict[str | None, Json | None] = {
    None: None,
    "invalid": {"kind": "invalid", "problems": []},
    "truncated": {"kind": "truncated", "limit": 10},
    "refused": {"kind": "refused", "reason": "no"},
    "throttled": {"kind": "throttled", "retry_after_s": 1.0},
    "unavailable": {"kind": "unavailable", "status": 400},
    "unknown": {"kind": "unknown"},
}


def event(kind: str, /, **members: Any) -> Json:
    """The committed example of a kind, with these members instead of its own."""
    body = json.loads((EXAMPLES / kind / f"{EXAMPLE_OF[kind]}.json").read_text()) | members
    if kind in HASHED:
        del body["hash"]
        body["hash"] = digest(body)
    return dict(body)


def traced(body: Json) -> tuple[tuple[str, bytes], ...]:
    """The header of an event that names its span."""
    match body["kind"]:
        case "attempt":
            return (traceparent(f"{body['request_id']}.attempt.{body['attempt']}"),)
        case "result" | "unvalidated_result" | "refusal" | "retry_request" | "dead_letter":
            return (traceparent(str(body["request_id"])),)
        case "tool_call" | "tool_result":
            return (traceparent(body["call_id"]),)
        case "run_child":
            return (traceparent(body["request"]["parent"]["call_id"]),)
        case _:
            return ()


def traceparent(span: str, trace: str = TRACE) -> tuple[str, bytes]:
    """The header that names the span of that name."""
    return HEADER, f"00-{trace}-{span_id(trace, span)}-01".encode()


def whole(request: Json) -> Json:
    """A request as events of ours repeat it: with every member."""
    example = event("dead_letter")["request"]
    parts = {
        name: example[name] | request.get(name, {}) for name in ("context", "budget", "policy")
    }
    return dict(example | request | parts)


def key(body: Json) -> bytes:
    """The record key of an event of ours."""
    match body["kind"]:
        case "retry_request":
            text = f"{body['request_id']}@{body['workflow_id']}"
        case "dead_letter":
            text = body["dead_letter_id"]
        case "run" | "run_child":
            text = f"{body['request']['request_id']}{_scope(body)}"
        case "run_call":
            text = f"{body['request_id']}/{body['n']}/{body['place']}{_scope(body)}"
        case "tool_call":
            text = body["call_id"]
        case "account":
            text = f"account:{body['account_id']}"
        case "closed":
            workflow = body["workflow_id"]
            name = f"@{body['closes']}" if workflow is None else f"{body['closes']}@{workflow}"
            text = f"closed:{name}"
        case _:
            text = body["workflow_id"]
    return str(text).encode()


def _scope(body: Json) -> str:
    """The end of the key of a run's record; none in those of a version before."""
    return f"@{body['workflow_id']}" if body.get("workflow_id") else ""


def account_id(request: Json) -> str:
    """The account that an honest request is charged to."""
    replay = request.get("replay")
    return str(replay["account"] if replay else request["workflow_id"])


def account(workflow: str, request: Json) -> Json:
    """The account of a workflow whose first request this is."""
    budget = {"attempts": 3, "tokens": None, "micro_usd": None} | request.get("budget", {})
    return event("account", account_id=account_id(request), workflow_id=workflow, limit=budget)


def state(account: Json) -> Json:
    """An account as other events show it."""
    return {"id": account["account_id"], "limit": account["limit"], "spent": account["spent"]}


def origin(record: Record) -> Json:
    """Where a record of the requests topic stands."""
    return {
        "topic": f"{PREFIX}.requests.v1",
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": text(record.timestamp),
    }


def place_id(record: Record) -> str:
    """What the ledger calls a record of the requests topic."""
    return f"{PREFIX}.requests.v1-{record.partition}-{record.offset}"


def text(moment: datetime) -> str:
    """A time as events write it."""
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def lasting(call: Call, seconds: float) -> Call:
    """The call, with an end so many seconds after its start."""
    return replace(call, ended=call.started + timedelta(seconds=seconds))

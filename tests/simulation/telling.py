"""Records in words, for the timeline."""

import json
from typing import Any

from tests.simulation.log import Entry, Fate, Transaction


def transaction(decided: Transaction) -> str:
    """What it says, and how it ended."""
    reported = ", ".join(record(entry) for entry in decided.entries) or "nothing"
    offset = f", offset {decided.offset[1]} of {decided.offset[0]}" if decided.offset else ""
    verb = "committed" if decided.fate is Fate.COMMITTED else "ABORTED"
    return f"{verb} ({decided.id} epoch {decided.epoch}): {reported}{offset}"


def record(entry: Entry) -> str:
    short = entry.topic.removesuffix(".v1").rpartition(".")[2]
    if short == "requests":
        return f"a copy for partition {entry.partition}"
    if entry.value is None:
        return f"{short} {(entry.key or b'').decode()} ended"
    body = json.loads(entry.value)
    match body["kind"]:
        case "account":
            return _account(body)
        case "closed":
            return f"closed {body['closes']}"
        case "closed_ids":
            return f"chunk {body['chunk']} of closed ids"
        case "lane":
            return f"lane record ({body['openings_without_progress']} openings)"
        case "attempt":
            counted = "" if body["counted"] else ", not counted"
            return f"attempt {body['request_id']}.{body['attempt']} {body['outcome']}{counted}"
        case "retry_request":
            failure = body["failure"]["kind"]
            return f"RETRY {body['request_id']} ({failure}) not before {body['not_before'][14:23]}"
        case "dead_letter":
            return f"DEAD LETTER {body['dead_letter_id']} ({body['cause']['kind']})"
        case kind:
            return _of_runs_and_budgets(body) or f"{kind.upper()} {body['request_id']}"


def _of_runs_and_budgets(body: dict[str, Any]) -> str | None:
    match body["kind"]:
        case "tool_call" | "tool_reconcile" | "approval_requested" | "input_requested":
            return f"{body['kind'].upper()} {body['call_id']}"
        case "tool_continue":
            given = " with an answer" if "given" in body else ""
            return f"TOOL_CONTINUE {body['call']['call_id']}{given}"
        case "tool_ended":
            return f"TOOL ENDED {body['call_id']} {body['outcome']['kind']}"
        case "control_applied":
            return f"CONTROL {body['control']['kind']}: {body['effect']} {body['requests']}"
        case "run":
            return f"run {body['request']['request_id']}"
        case "run_child":
            return f"child {body['request']['request_id']}"
        case "run_step" | "run_call" | "run_cancel":
            return f"{body['kind']} of {body['request_id']}"
        case "budget_nearly_spent":
            return f"80 % OF {body['budget']} in {body['window']}"
        case "budget_lease" | "budget_share":
            return f"{body['kind']} of {body['budget']}, lane {body['lane']}"
        case _:
            return None


def _account(body: dict[str, Any]) -> str:
    flying = " ".join(f"{spend['request_id']}.{spend['attempt']}" for spend in body["in_flight"])
    return f"account {body['account_id']} spent {body['spent']['attempts']} in flight [{flying}]"

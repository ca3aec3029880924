"""G7: what workers wrote are typed events by the committed schemas, each where it belongs."""

from collections.abc import Iterator

from tests.chaos.audit import schemas
from tests.chaos.audit.canonical import owner
from tests.chaos.audit.history import CARD_TOPIC, Event, History, Json, Violation, body_of

KINDS = {
    "results": {"result", "unvalidated_result"},
    "refusals": {"refusal"},
    "retries": {"retry_request"},
    "dead-letters": {"dead_letter", "replayed", "dismissed"},
    "attempts": {"attempt"},
    "ledger": {"account", "closed", "closed_ids", "lane", "budget_lease", "budget_share"},
    "tool-results": {"tool_result", "tool_progress", "tool_reconciled"},
    CARD_TOPIC: {"toolset"},
    "approvals": {"approval", "run_resumed"},
    "controls": {"cancel"},
    "runs": {"run", "run_step", "run_call", "run_cancel", "run_child"},
    "steps": {
        "step",
        "approval_requested",
        "input_requested",
        "tool_ended",
        "control_applied",
        "budget_nearly_spent",
    },
}
OF_CALLS = {"tool_call", "tool_continue", "tool_cancel", "tool_reconcile"}
WRITTEN_BY_OTHERS = ("requests", "approvals", "controls")
# Where a null value says something, and of which keys: an account or a lane never ends so.
NULL_ENDS = {"retries": (b"",), "runs": (b"",), "ledger": (b"closed:", b"closed_ids:", b"budget_")}


def check(history: History) -> Iterator[Violation]:
    """Each record but those that upstream and people wrote."""
    for record in history.records:
        keys = NULL_ENDS.get(record.topic, ())
        is_end = record.value is None and (record.key or b"").startswith(keys)
        if record.topic in WRITTEN_BY_OTHERS or is_end:
            continue
        about = record.where
        body = body_of(record)
        if body is None:
            yield Violation("G7", about, "no event: its value is no JSON object with a kind")
            continue
        found = list(_faults(history, Event(record, body)))
        if found:
            yield Violation("G7", about, "; ".join(found))


def _faults(history: History, event: Event) -> Iterator[str]:
    record, body = event.record, event.body
    if body["kind"] not in KINDS.get(record.topic, OF_CALLS):
        yield f"a {body['kind']} does not belong here"
        return
    yield from schemas.faults(body["kind"], body)
    key = record.key.decode(errors="replace") if record.key else None
    if key != _key(body):
        yield f"its key is {key!r} instead of {_key(body)!r}"
    expected = f"answerbus.{body['kind']}.v1"
    if record.header("ce_type") != expected:
        yield f"its ce_type is {record.header('ce_type')!r} instead of {expected!r}"
    partition = _partition(history, body)
    if partition is not None and partition != record.partition:
        yield f"it belongs into partition {partition}"


# The key of a record by its kind, as its members say it; of all others it is the workflow's id.
_KEYS = {
    "retry_request": "{request_id}@{workflow_id}",
    "dead_letter": "{dead_letter_id}",
    "replayed": "{dead_letter_id}",
    "dismissed": "{dead_letter_id}",
    "account": "account:{account_id}",
    "closed_ids": "closed_ids:{chunk}",
    "lane": "lane",
    "budget_lease": "budget_lease:{budget}@{window}",
    "budget_share": "budget_share:{lane}:{budget}@{window}",
    "budget_nearly_spent": "{budget}",
    "run": "{request[request_id]}",
    "run_step": "{request_id}/{n}",
    "run_call": "{request_id}/{n}/{place}",
    "run_child": "{request[request_id]}",
    "tool_call": "{call_id}",
    "tool_continue": "{call[call_id]}",
    "tool_cancel": "{call_id}",
    "tool_reconcile": "{call_id}",
    "toolset": "{toolset}",
}


def _key(body: Json) -> str:
    if body["kind"] == "closed":
        if body["workflow_id"] is None:
            return f"closed:@{body['closes']}"
        return f"closed:{body['closes']}@{body['workflow_id']}"
    if body["kind"] == "run_cancel":
        return f"{body['request_id'] or ''}/cancel/{body['workflow_id']}"
    text = _KEYS.get(body["kind"], "{workflow_id}").format_map(body)
    is_of_run = body["kind"] in ("run", "run_step", "run_call", "run_child")
    return f"{text}@{body['workflow_id']}" if is_of_run and body.get("workflow_id") else text


def _partition(history: History, body: Json) -> int | None:
    """Where the event belongs: with its workflow, or with the record that it is about."""
    if body["kind"] == "dead_letter" and body["request"] is None:
        return int(body["origin"]["partition"]) % history.partitions
    workflow_id = body.get("workflow_id")
    if body["kind"] == "budget_nearly_spent":
        return owner(body["budget"], history.partitions)
    if body["kind"] in OF_CALLS:
        return None  # they are spread over partitions of their own
    return None if workflow_id is None else owner(workflow_id, history.partitions)

"""A2 and A4 to A6: each tool call against its step, its end, its approval, and what tools noted."""

from collections.abc import Iterator
from datetime import timedelta

from tests.chaos.audit import schemas
from tests.chaos.audit.canonical import digest, moment
from tests.chaos.audit.history import Event, History, Json, Violation
from tests.chaos.audit.run_records import CHILD_TOOLS, RunRecords

CLOCK_ERROR = timedelta(milliseconds=10)
_APPROVALS = ".approvals.v1-"  # in the ids of places of the topic that operators alone may write
ENDED_BY_TOOLS = ("ok", "error")  # outcomes that only a tool server can tell


def check(history: History) -> Iterator[Violation]:
    """All that is promised of calls."""
    runs = RunRecords(history)
    if runs.is_empty:
        return
    for call_id, asked in runs.asked.items():
        if len(asked) > 1:
            yield Violation("A4", call_id, f"{len(asked)} steps ask for it")
        yield from _one_end(runs, call_id, asked[0][0].body["request_id"])
    for call_id in runs.ended.keys() - runs.asked.keys():
        yield Violation("A5", call_id, "the end of a call that no step asks for")
    for call_id, deliveries in runs.delivered.items():
        yield from _delivered(runs, call_id, deliveries)
    for call_id in runs.deeds:
        yield from _done(runs, call_id)
    for call_id, ends in runs.ended.items():
        yield from _answered(runs, call_id, ends[0])


def _one_end(runs: RunRecords, call_id: str, request_id: str) -> Iterator[Violation]:
    ends, is_over = runs.ended.get(call_id, []), request_id in runs.history.terminals
    if len(ends) > 1 or (is_over and not ends):
        yield Violation("A5", call_id, f"it ended {len(ends)} times")


def _delivered(runs: RunRecords, call_id: str, deliveries: list[Event]) -> Iterator[Violation]:
    asked = runs.asked.get(call_id)
    if not asked:
        yield Violation("A4", call_id, "published, and no committed step asks for it")
        return
    step, call = asked[0]
    deliveries = sorted(deliveries, key=lambda event: event.record.timestamp)
    numbers = [event.body["delivery"] for event in deliveries]
    if numbers != list(range(1, len(numbers) + 1)):
        yield Violation("A4", call_id, f"its deliveries are numbered {numbers}")
    tokens = {event.body["reply"]["token"] for event in deliveries}
    if len(tokens) < len(deliveries):
        yield Violation("A4", call_id, "two deliveries have one token")
    if call["state"] == "ended":
        yield Violation("A4", call_id, "published, and it ended with its step")
    for event in deliveries:
        yield from _as_asked(call_id, call, event.body)
    yield from _allowed(runs, call_id, step.body["request_id"], deliveries)
    yield from _after_its_end(runs, call_id, deliveries)
    if call["state"] == "awaits_approval":
        yield from _approved(runs, call_id, deliveries[0])


def _as_asked(call_id: str, call: Json, sent: Json) -> Iterator[Violation]:
    name = f"{sent['toolset']}.{sent['tool']}"
    if (name, sent["args"]) != (call["tool"], call["args"]):
        yield Violation("A4", call_id, f"published as {name}, asked for was {call['tool']}")
    if not sent["args_digest"] == call["args_digest"] == digest(sent["args"]):
        yield Violation("A4", call_id, "its digest is not that of its arguments")


def _allowed(
    runs: RunRecords, call_id: str, request_id: str, deliveries: list[Event]
) -> Iterator[Violation]:
    """By the definition that was frozen into the run."""
    sent = deliveries[0].body
    name = f"{sent['toolset']}.{sent['tool']}"
    card = runs.cards(request_id).get(name)
    if card is None:
        yield Violation("A6", call_id, f"{name} is no tool of its agent")
        return
    if faults := schemas.inline_faults(card["args_schema"], sent["args"]):
        yield Violation("A6", call_id, "outside of its schema: " + "; ".join(faults))
    if _is_denied(runs.policies(request_id).get(name, {}), sent):
        yield Violation("A13", call_id, "published, and the policy of its agent denies it")
    if card["delivery"] == "at_most_once" and len(deliveries) > 1 + _repeats(runs, call_id):
        yield Violation("A4", call_id, f"published {len(deliveries)} times, at most once allowed")


def _repeats(runs: RunRecords, call_id: str) -> int:
    """How often a server found that it did not happen, or a person allowed it once more."""
    allowed = [
        control
        for control in runs.controls
        if control.body["effect"] == "approved"
        and control.body["control"]["call_id"] == call_id
        and control.body["control"].get("delivery", 1) > 1
    ]
    found = [one for one in runs.found.get(call_id, ()) if one["kind"] == "did_not_happen"]
    return len(allowed) + len(found)


def _is_denied(policy: Json, sent: Json) -> bool:
    """By a rule on arguments and labels; what the run was like then is not known here."""
    rule = policy.get("deny")
    if rule is None or policy.get("mode") == "log_only" or "run" in rule.get("properties", {}):
        return False
    return not schemas.inline_faults(rule, {"args": sent["args"], "labels": sent["labels"]})


def _after_its_end(runs: RunRecords, call_id: str, deliveries: list[Event]) -> Iterator[Violation]:
    """By the worker's own times: what is committed at once is appended in no order."""
    ends = [moment(end.body["at"]) for end in runs.ended.get(call_id, [])]
    if ends and moment(deliveries[-1].body["at"]) > max(ends) + CLOCK_ERROR:
        yield Violation("A2", call_id, "published again after its end")


def _approved(runs: RunRecords, call_id: str, first: Event) -> Iterator[Violation]:
    """An operator's approval of these very arguments was applied before, by the worker's times."""
    moments = [
        moment(control.body["at"])
        for control in runs.controls
        if control.body["effect"] == "approved"
        and control.body["control"]["call_id"] == call_id
        and control.body["control"]["args_digest"] == first.body["args_digest"]
        and _APPROVALS in control.body["event_id"]  # which names the place of the approval
    ]
    if not moments or moment(first.body["at"]) < min(moments):
        yield Violation("A5", call_id, "published without an approval of its arguments before")


def _done(runs: RunRecords, call_id: str) -> Iterator[Violation]:
    """What a tool did was asked of it, and no more often than it may."""
    deeds, deliveries = runs.deeds[call_id], runs.delivered.get(call_id)
    if not deliveries:
        yield Violation("A4", call_id, "a tool ran it, and it was never published")
        return
    first = min(event.record.timestamp for event in deliveries)
    if min(deed.started for deed in deeds) < first - CLOCK_ERROR:
        yield Violation("A4", call_id, "a tool ran it before it was published")
    asked = runs.asked.get(call_id)
    card = runs.cards(asked[0][0].body["request_id"]).get(asked[0][1]["tool"]) if asked else None
    if card and card["delivery"] == "at_most_once" and len(deeds) > 1:
        yield Violation("A4", call_id, f"it ran {len(deeds)} times, at most once allowed")


def _answered(runs: RunRecords, call_id: str, end: Event) -> Iterator[Violation]:
    """What a tool is said to have answered, one did, under a token that it was given."""
    outcome, asked = end.body["outcome"], runs.asked.get(call_id)
    if outcome["kind"] not in ENDED_BY_TOOLS or (asked and asked[0][1]["tool"] in CHILD_TOOLS):
        return
    if outcome.get("same_as"):
        return  # see equal_calls.py
    if end.body.get("reconciled"):
        if {**outcome, "kind": "happened"} not in runs.found.get(call_id, ()):
            yield Violation("A14", call_id, "it is said to have happened, and no server found that")
        if runs.history.deeds is not None and not runs.deeds.get(call_id):
            yield Violation("A14", call_id, "it is said to have happened, and no tool ran")
        return
    tokens = {event.body["reply"]["token"] for event in runs.delivered.get(call_id, [])}
    answers = [event.body for event in runs.results.get(call_id, [])]
    texts = [answer["outcome"] for answer in answers if answer["token"] in tokens]
    if not any(all(text.get(name) == outcome[name] for name in outcome) for text in texts):
        yield Violation("A4", call_id, f"it ended as {outcome['kind']}, and no server said so")
    noted = runs.history.deeds is None or any(deed.ended for deed in runs.deeds.get(call_id, []))
    if outcome["kind"] == "ok" and not noted:
        yield Violation("A4", call_id, "it ended well, and no tool ran to its end")

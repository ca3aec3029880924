"""A2, A4 to A6, A13, A14 and A16: each tool call against its step, its end, its approval."""

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import timedelta

from tests.chaos.audit import schemas
from tests.chaos.audit.canonical import digest, moment
from tests.chaos.audit.history import Event, History, Json, Violation
from tests.chaos.audit.run_records import ASK_PERSON, CHILD_TOOLS, RunRecords

CLOCK_ERROR = timedelta(milliseconds=10)
_APPROVALS = ".approvals.v1-"  # in the ids of places of the topic that operators alone may write
ENDED_BY_TOOLS = ("ok", "error")  # outcomes that only a tool server can tell
INPUT_REQUIRED = "input_required"  # the code of an error of ours: its agent may not ask people
FIRST = (1, 0)  # the delivery that most calls have, and no answered question before it


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
    for call_id, sent in runs.sent.items():
        yield from _sent(runs, call_id, sent)
    for call_id, approvals in runs.approvals.items():
        yield from _counted(call_id, approvals)
    for call_id in runs.deeds:
        yield from _done(runs, call_id)
    for call_id, ends in runs.ended.items():
        yield from _answered(runs, call_id, ends[0])
        yield from _not_run(runs, call_id, ends[0])


def _one_end(runs: RunRecords, call_id: str, request_id: str) -> Iterator[Violation]:
    ends, is_over = runs.ended.get(call_id, []), request_id in runs.history.terminals
    if len(ends) > 1 or (is_over and not ends):
        yield Violation("A5", call_id, f"it ended {len(ends)} times")


def _sent(runs: RunRecords, call_id: str, sent: Sequence[Event]) -> Iterator[Violation]:
    """The records that went out to tool servers, to begin the call or to go on with it."""
    asked = runs.asked.get(call_id)
    if not asked:
        yield Violation("A4", call_id, "published, and no committed step asks for it")
        return
    step, call = asked[0]
    tokens = {event.body["reply"]["token"] for event in sent}
    if len(tokens) < len(sent):
        yield Violation("A4", call_id, "two deliveries have one token")
    if call["state"] == "ended":
        yield Violation("A4", call_id, "published, and it ended with its step")
    yield from _as_asked(runs, call_id, call, sent)
    yield from _after_its_end(runs, call_id, sent)
    card = runs.card(call_id)
    if card is None:
        yield Violation("A6", call_id, f"{call['tool']} is no tool of its agent")
        return
    policy = runs.policies(step.body["request_id"]).get(call["tool"])
    for body in (event.body for event in sent):
        yield from _allowed(runs, call_id, call, body, card=card, policy=policy)
    yield from _numbered(runs, call_id, card)


def _as_asked(
    runs: RunRecords, call_id: str, call: Json, sent: Sequence[Event]
) -> Iterator[Violation]:
    """With the arguments of its step, or those by which a person replaced them."""
    controls = [one.body["control"] for one in runs.approvals.get(call_id, ())]
    valid = next((one for one in controls if "args" in one), call)
    if valid.get("asked_digest", call["args_digest"]) != call["args_digest"]:
        yield Violation("A16", call_id, "a person changed other arguments than those of its step")
    for body in (event.body for event in sent):
        name = f"{body['toolset']}.{body['tool']}"
        if (name, body["args"]) != (call["tool"], valid["args"]):
            yield Violation("A4", call_id, f"published as {name}, asked for was {call['tool']}")
        if not body["args_digest"] == valid["args_digest"] == digest(body["args"]):
            yield Violation("A4", call_id, "its digest is not that of its arguments")


def _allowed(
    runs: RunRecords, call_id: str, call: Json, sent: Json, *, card: Json, policy: Json | None
) -> Iterator[Violation]:
    """By the definition that was frozen into the run."""
    if faults := schemas.inline_faults(card["args_schema"], sent["args"]):
        yield Violation("A6", call_id, "outside of its schema: " + "; ".join(faults))
    verdict = _verdict(policy, sent) if policy else None
    if verdict == "deny":
        yield Violation("A13", call_id, "published, and the policy of its agent denies it")
    asks = verdict == "ask" or card["approval"] == "always" or call["state"] == "awaits_approval"
    if asks and not _is_approved(runs, call_id, sent):
        yield Violation("A5", call_id, "published without an approval of its arguments before")


def _verdict(policy: Json, sent: Json) -> str | None:
    """By rules on arguments and labels; what the run was like then is not known here."""
    if policy.get("mode") == "log_only":
        return None
    for name in ("deny", "ask", "allow"):
        rule = policy.get(name)
        if rule is not None and "run" in rule.get("properties", {}):
            return None
        judged = {"args": sent["args"], "labels": sent.get("labels", {})}
        if rule is not None and not schemas.inline_faults(rule, judged):
            return name
    return str(policy["otherwise"])


def _is_approved(runs: RunRecords, call_id: str, sent: Json) -> bool:
    """An operator's approval of these very arguments was applied before, by the worker's times."""
    return any(
        moment(one.body["at"]) <= moment(sent["at"])
        and one.body["control"]["args_digest"] == sent["args_digest"]
        and _APPROVALS in one.body["event_id"]  # which names the place of the approval
        and _place(one) == FIRST
        for one in runs.approvals.get(call_id, ())
    )


def _place(approval: Event) -> tuple[int, int]:
    control = approval.body["control"]
    return control.get("delivery", 1), control.get("after_input", 0)


def _counted(call_id: str, approvals: Sequence[Event]) -> Iterator[Violation]:
    """Once for each delivery, and only if an operator wrote it."""
    given = Counter((one.body["control"]["args_digest"], *_place(one)) for one in approvals)
    if any(number > 1 for number in given.values()):
        yield Violation("A5", call_id, "approved twice")
    if not all(_APPROVALS in one.body["event_id"] for one in approvals):
        yield Violation("A5", call_id, "approved by who may not")


def _numbered(runs: RunRecords, call_id: str, card: Json) -> Iterator[Violation]:
    """Without gaps; again only as often as the tool may run, as far as anybody knows."""
    calls = runs.delivered.get(call_id, [])
    numbers = [event.body["delivery"] for event in runs.sent[call_id] if event in calls]
    if numbers != list(range(1, len(numbers) + 1)):
        yield Violation("A4", call_id, f"its deliveries are numbered {numbers}")
    if card["delivery"] != "at_most_once" or len(calls) < 2:
        return
    if not card.get("reconcilable"):
        yield Violation("A4", call_id, f"published {len(calls)} times, at most once allowed")
        return
    for body in (event.body for event in calls if event.body["delivery"] > 1):
        if body["delivery"] not in _repeats(runs, call_id) and not _did_not_happen(runs, body):
            text = f"delivery {body['delivery']}: nobody knew that it had not run"
            yield Violation("A14", call_id, text)


def _repeats(runs: RunRecords, call_id: str) -> set[int]:
    """The deliveries that a person allowed although it may have run."""
    places = map(_place, runs.approvals.get(call_id, ()))
    return {delivery for delivery, after_input in places if delivery > 1 and after_input == 0}


def _did_not_happen(runs: RunRecords, sent: Json) -> bool:
    """By the answer to the last question before."""
    questions = runs.questions.get(sent["call_id"], ())
    asked = [one for one in questions if moment(one["at"]) < moment(sent["at"])]
    last = max(asked, key=lambda one: int(one["question"]), default=None)
    found = runs.findings.get(last["reply"]["token"]) if last else None
    return found is not None and found["kind"] == "did_not_happen"


def _after_its_end(runs: RunRecords, call_id: str, sent: Sequence[Event]) -> Iterator[Violation]:
    """Also by the worker's own times: what is committed at once is appended in no order."""
    if any(
        event.record.timestamp > end.record.timestamp
        and moment(event.body["at"]) > moment(end.body["at"])
        for end in runs.ended.get(call_id, ())
        for event in sent
    ):
        yield Violation("A2", call_id, "published again after its end")


def _done(runs: RunRecords, call_id: str) -> Iterator[Violation]:
    """What a tool did was asked of it, and no more often than it may."""
    deeds, deliveries = runs.deeds[call_id], runs.delivered.get(call_id)
    if not deliveries:
        yield Violation("A4", call_id, "a tool ran it, and it was never published")
        return
    first = min(event.record.timestamp for event in deliveries)
    if min(deed.started for deed in deeds) < first - CLOCK_ERROR:
        yield Violation("A4", call_id, "a tool ran it before it was published")
    card = runs.card(call_id)
    is_once = card is not None and card["delivery"] == "at_most_once"
    if is_once and len(deeds) > 1 + len(_repeats(runs, call_id)):
        yield Violation("A4", call_id, f"it ran {len(deeds)} times, at most once allowed")


def _answered(runs: RunRecords, call_id: str, end: Event) -> Iterator[Violation]:
    """What a tool is said to have answered, one did, under a token that it was given."""
    outcome, asked = end.body["outcome"], runs.asked.get(call_id)
    tool = asked[0][1]["tool"] if asked else None
    if outcome["kind"] not in ENDED_BY_TOOLS or tool in {*CHILD_TOOLS, ASK_PERSON}:
        return
    if outcome.get("same_as") or outcome.get("code") == INPUT_REQUIRED:
        return  # of the former see equal_calls.py
    if end.body.get("reconciled"):
        found = [one["value"] for one in runs.found.get(call_id, ()) if one["kind"] == "happened"]
        if outcome["kind"] != "ok" or outcome["value"] not in found:
            yield Violation("A14", call_id, "it is said to have happened, and no server found that")
        if runs.history.deeds is not None and not runs.deeds.get(call_id):
            yield Violation("A14", call_id, "it is said to have happened, and no tool ran")
        return
    tokens = {event.body["reply"]["token"] for event in runs.sent.get(call_id, [])}
    answers = [event.body for event in runs.results.get(call_id, [])]
    texts = [answer["outcome"] for answer in answers if answer["token"] in tokens]
    if not any(all(text.get(name) == outcome[name] for name in outcome) for text in texts):
        yield Violation("A4", call_id, f"it ended as {outcome['kind']}, and no server said so")
    noted = runs.history.deeds is None or any(deed.ended for deed in runs.deeds.get(call_id, []))
    if outcome["kind"] == "ok" and not noted:
        yield Violation("A4", call_id, "it ended well, and no tool ran to its end")


def _not_run(runs: RunRecords, call_id: str, end: Event) -> Iterator[Violation]:
    """Of a call that went out only its server can know that, where it can find it out."""
    outcome, card = end.body["outcome"], runs.card(call_id) or {}
    is_denied = outcome["kind"] == "timed_out" and outcome["ran"] == "no"
    if is_denied and runs.delivered.get(call_id) and not card.get("reconcilable"):
        yield Violation("A4", call_id, "published, and it is said not to have run")

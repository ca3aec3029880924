"""What must hold of a history with runs, beside all that must hold of each: A1 to A14."""

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cached_property

from answerbus.topics import (
    APPROVALS,
    ATTEMPTS,
    DEAD_LETTERS,
    LEDGER,
    REFUSALS,
    RESULTS,
    RUNS,
    STEPS,
    TOOL_RESULTS,
    TOPICS,
)
from services.operators.audit.verification import Verification
from services.operators.records.stored import Stored
from tests.chaos.audit.canonical import moment
from tests.chaos.audit.record import Record
from tests.chaos.audit.run_records import CHILD_TOOLS
from tests.simulation.agents.history import RunHistory
from tests.simulation.agents.model import CANARY
from tests.simulation.agents.setting import (
    ASKED_ORDER,
    DENIED_ORDER,
    JUDGED_TOOLS,
    STEPS_MAX,
    TOOL_CANARY,
    TOOLS,
    Json,
)
from tests.simulation.agents.tool_servers import cost_of

CALLS = "tools.orders"
AUDITED = {topic.name: topic for topic in (*TOPICS, STEPS)}
CLAIMING = (LEDGER, RESULTS, REFUSALS, DEAD_LETTERS)
HANDED_OVER = timedelta(seconds=5)  # from a result to the end of its call, undisturbed
PERMIT_S = 5.0  # within which a worker that was replaced may still call


@dataclass(frozen=True, slots=True)
class Reported:
    """A record that can be read, with its body."""

    record: Record
    body: Json

    @property
    def at(self) -> datetime:
        """When it was appended."""
        return self.record.timestamp


@dataclass(frozen=True)
class RunReport:
    """What committed records say of runs, and what tools and model noted."""

    history: RunHistory
    records: Sequence[Record]
    events: dict[str, list[Reported]] = field(default_factory=lambda: defaultdict(list))  # by kind

    def __post_init__(self) -> None:
        for record in self.records:
            if record.value and record.topic in {STEPS.name, CALLS}:
                body = json.loads(record.value)
                self.events[body["kind"]].append(Reported(record, body))

    @cached_property
    def ended(self) -> dict[str, list[Reported]]:
        """The ends of each call."""
        found: dict[str, list[Reported]] = defaultdict(list)
        for text in self.events["tool_ended"]:
            found[text.body["call_id"]].append(text)
        return found

    @cached_property
    def results(self) -> dict[str, datetime]:
        """When the first result came that its own server had said of a call."""
        reported, found = self.history.tools.said, dict[str, datetime]()
        for record in self.records:
            body = json.loads(record.value or b"{}") if record.topic == TOOL_RESULTS.name else {}
            if body.get("kind") == "tool_result" and body["token"] in reported:
                found.setdefault(body["call_id"], record.timestamp)
        return found

    @cached_property
    def settled(self) -> dict[tuple[str, int], datetime]:
        """When the outcome of each attempt was written."""
        attempts = (record for record in self.records if record.topic == ATTEMPTS.name)
        bodies = ((json.loads(record.value or b"{}"), record.timestamp) for record in attempts)
        return {(body["request_id"], body["attempt"]): at for body, at in bodies}

    @cached_property
    def edited(self) -> dict[str, Json]:
        """By call the arguments that a person gave it, with effect."""
        controls = [applied.body for applied in self.events["control_applied"]]
        return {
            applied["control"]["call_id"]: applied["control"]["args"]
            for applied in controls
            if applied["effect"] == "approved" and "args" in applied["control"]
        }

    @cached_property
    def asked(self) -> dict[str, Json]:
        """The calls of committed steps, by id."""
        steps = self.events["step"]
        return {call["call_id"]: call for step in steps for call in step.body["calls"]}


def complaints(history: RunHistory, records: Sequence[Record]) -> Iterator[str]:
    """What does not hold."""
    reported = RunReport(history, records)
    for check in CHECKS:
        yield from check(reported)


def _audited(reply: RunReport) -> Iterator[str]:
    """A1, A5, A12: chains, counts in outcomes, one end for each call."""
    for partition in range(reply.history.partitions):
        verification = Verification(cut=())
        here = [
            _stored(r) for r in reply.records if r.topic in AUDITED and r.partition == partition
        ]
        for stored in here:
            if stored.topic in CLAIMING:
                verification.claim(stored)
        for stored in here:
            if stored.topic is ATTEMPTS:
                verification.attempt(stored)
        for stored in here:
            if stored.topic is STEPS:
                verification.step(stored)
        yield from (f"A12 {found}" for found in verification.end().breaks)


def _stored(record: Record) -> Stored:
    at_ms = int(record.timestamp.timestamp() * 1000)
    place = AUDITED[record.topic], record.partition, record.offset
    return Stored(*place, at_ms, record.key, record.value, record.headers)


def _nothing_again(reply: RunReport) -> Iterator[str]:
    """A2: no committed step is asked for again, and no call is made that has ended."""
    steps: dict[str, list[Reported]] = defaultdict(list)
    for step in reply.events["step"]:
        steps[step.body["request_id"]].append(step)
    for prompt in reply.history.model.asked:
        settled_at = reply.settled.get((prompt.request_id, prompt.attempt))
        taken = sum(
            step.body["attempt"] < prompt.attempt
            # One that no model was asked for has no attempt: what was settled by then was before.
            and not (step.body.get("composed") and settled_at and settled_at <= step.at)
            for step in steps[prompt.request_id]
        )
        shown = sum(turn.role == "assistant" for turn in prompt.turns)
        if shown < taken:
            name = f"{prompt.request_id}.{prompt.attempt}"
            yield f"A2 {name} asks again: it tells {shown} of {taken} steps"
    for call in reply.events["tool_call"]:
        if any(end.at < call.at for end in reply.ended.get(call.body["call_id"], ())):
            yield f"A2 {call.body['call_id']} was called after its end"


def _calls(reply: RunReport) -> Iterator[str]:
    """A4 and A6: each delivery once, of a committed step; nothing else, and nothing twice."""
    made = [call.body for call in reply.events["tool_call"]]
    deliveries = Counter((call["call_id"], call["delivery"]) for call in made)
    yield from (f"A4 {name} was published {n} times" for name, n in deliveries.items() if n > 1)
    for call in made:
        name = call["call_id"]
        asked = reply.asked.get(name)
        if asked is None or reply.edited.get(name, asked["args"]) != call["args"]:
            yield f"A4 {name} is of no committed step"
        if call["delivery"] > 1 and call["tool"] == "pay":
            yield f"A4 {name} was delivered twice, and may run once"
        if f"{call['toolset']}.{call['tool']}" not in TOOLS:
            yield f"A6 {name} calls {call['tool']}, which the agent does not have"
        if not str(call["args"].get("order_id")).isdecimal():
            yield f"A6 {name} has arguments outside of its schema"
    yield from (
        f"A4 {name} ended, and its step is not committed"
        for name in reply.ended
        if name not in reply.asked
    )
    for name, times in reply.history.tools.ran.items():
        if name not in reply.asked:
            yield f"A4 {name} ran, and its step is not committed"
        elif times > 1 and reply.asked[name]["tool"] == "orders.pay":
            yield f"A4 {name} ran {times} times, and may run once"


def _reconciled(reply: RunReport) -> Iterator[str]:
    """A14: a delivery more only after its server found no effect, or a person allowed it."""
    questions: dict[str, list[Json]] = defaultdict(list)
    for question in reply.events["tool_reconcile"]:
        questions[question.body["call_id"]].append(question.body)
    allowed: dict[str, set[int]] = defaultdict(set)
    for applied in reply.events["control_applied"]:
        if applied.body["effect"] == "approved":
            control = applied.body["control"]
            allowed[control["call_id"]].add(control.get("delivery", 1))
    refunds = [call.body for call in reply.events["tool_call"] if call.body["tool"] == "refund"]
    for call in refunds:
        name, delivery = call["call_id"], call["delivery"]
        asked = [one for one in questions[name] if moment(one["at"]) < moment(call["at"])]
        last = max(asked, key=lambda one: one["question"], default=None)
        found = reply.history.tools.found.get(last["reply"]["token"]) if last else None
        is_free = delivery == 1 or (found and found["kind"] == "did_not_happen")
        if not (is_free or delivery in allowed[name]):
            yield f"A14 {name}, delivery {delivery}: nobody knew that it had not run"
        if reply.history.tools.ran[name] > 1 and not allowed[name] - {1}:
            yield f"A14 {name} ran twice, and no person allowed that"


def _within_policies(reply: RunReport) -> Iterator[str]:
    """A13: no call goes out that its agent's policy denies."""
    for call in reply.events["tool_call"]:
        if call.body["tool"] in JUDGED_TOOLS and call.body["args"]["order_id"] == DENIED_ORDER:
            yield f"A13 {call.body['call_id']} was called, and the policy denies it"


def _needs_approval(call: Json) -> bool:
    """By the card of its tool, or by the policy of its agent."""
    is_asked = call["tool"] == "ship" and call["args"]["order_id"] == ASKED_ORDER
    return bool(is_asked or call["tool"] == "pay")


def _approved(reply: RunReport) -> Iterator[str]:
    """A5: no call that needs it goes out before an operator approved these arguments, once."""
    given: dict[tuple[str, str, int], list[Reported]] = defaultdict(list)
    for applied in reply.events["control_applied"]:
        if applied.body["effect"] == "approved":
            if f".{APPROVALS.name}." not in applied.body["event_id"]:  # which names its place
                yield f"A5 {applied.body['control']['call_id']} was approved by an application"
            control = applied.body["control"]
            about = control["call_id"], control["args_digest"], control.get("delivery", 1)
            given[about].append(applied)
    yield from (f"A5 {name} was approved twice" for name, found in given.items() if len(found) > 1)
    for call in reply.events["tool_call"]:
        before = given[call.body["call_id"], call.body["args_digest"], 1]
        # By the worker's own times: what is committed at once is appended in no order.
        times = (moment(one.body["at"]) for one in before)
        if _needs_approval(call.body) and not any(at <= moment(call.body["at"]) for at in times):
            yield f"A5 {call.body['call_id']} was called without an approval"


def _results(reply: RunReport) -> Iterator[str]:
    """A4: a call ends with what its own server said, or was not heard to say in time."""
    tokens: dict[str, list[Json]] = defaultdict(list)
    for call in reply.events["tool_call"]:
        reported = reply.history.tools.said.get(call.body["reply"]["token"], [])
        tokens[call.body["call_id"]] += reported
    for name, ends in reply.ended.items():
        if name not in reply.asked:
            continue  # reported by `_calls`
        outcome = ends[0].body["outcome"]
        was_called = any(call.body["call_id"] == name for call in reply.events["tool_call"])
        is_childs = reply.asked[name]["tool"] in CHILD_TOOLS
        tokens[name] += [
            {"kind": "ok", "value": found["value"]}
            for question in reply.events["tool_reconcile"]
            if question.body["call_id"] == name
            and (found := reply.history.tools.found.get(question.body["reply"]["token"]))
            and found["kind"] == "happened"
        ]
        is_own = outcome["kind"] == "ok" and not is_childs and "same_as" not in outcome
        if is_own and outcome not in tokens[name]:
            yield f"A4 {name} ended with what its server never said: {outcome}"
        if outcome["kind"] != "timed_out":
            continue
        is_found_out = reply.asked[name]["tool"] == "orders.refund"
        if outcome["ran"] == "no" and was_called and not is_found_out:
            yield f"A4 {name} was called, and is said not to have run"
        came = reply.results.get(name)
        if came and came >= reply.history.stable_from and ends[0].at > came + HANDED_OVER:
            yield f"A2 {name} timed out at {ends[0].at}, and its result came at {came}"


def _bounded(reply: RunReport) -> Iterator[str]:
    """A7: no run takes more steps than it may, and after a cancellation none calls any more."""
    steps = Counter(step.body["request_id"] for step in reply.events["step"])
    yield from (f"A7 {name} took {n} steps" for name, n in steps.items() if n >= STEPS_MAX)
    for applied in reply.events["control_applied"]:
        if applied.body["effect"] != "cancelled":
            continue
        for call in reply.events["tool_call"]:
            if call.body["request_id"] not in applied.body["requests"]:
                continue
            # One transaction may make a call and cancel its run; it appends them in no order.
            if call.at > applied.at and moment(call.body["at"]) > moment(applied.body["at"]):
                yield f"A7 {call.body['call_id']} was called after it was cancelled"
        for made in reply.history.provider.journal():
            late_s = (made.started - applied.at).total_seconds()
            if made.request_id in applied.body["requests"] and late_s > PERMIT_S:
                yield f"A7 {made.request_id} was asked {late_s} s after it was cancelled"


def _hidden(reply: RunReport) -> Iterator[str]:
    """A9: thoughts are in Attempts alone, and nothing of a tool is in the text of the system."""
    for record in reply.records:
        if record.topic not in {ATTEMPTS.name, "requests"} and CANARY.encode() in (
            record.value or b""
        ):
            yield f"A9 {record.where} tells a thought"
    for prompt in reply.history.model.asked:
        name = f"{prompt.request_id}.{prompt.attempt}"
        if any(CANARY in turn.text for turn in prompt.turns):
            yield f"A9 the prompt of {name} tells a thought"
        if TOOL_CANARY in prompt.system:
            yield f"A9 the system text of {name} has a description of a tool"


def _nothing_left(reply: RunReport) -> Iterator[str]:
    """A8: what has ended has no private record, but for cancellations that are remembered."""
    last = {(r.partition, r.key): r.value for r in reply.records if r.topic == RUNS.name}
    for (_, key), value in last.items():
        if value is not None and json.loads(value)["kind"] != "run_cancel":
            yield f"A8 {(key or b'').decode()} is kept, and is never ended"


def _charged(reply: RunReport) -> Iterator[str]:
    """G13: a call that its tool server ended is charged what it costs, and no other call is."""
    for name, ends in reply.ended.items():
        if name not in reply.asked:
            continue  # reported by `_calls`
        outcome, charged = ends[0].body["outcome"], ends[0].body.get("micro_usd", 0)
        is_childs = reply.asked[name]["tool"] in CHILD_TOOLS
        is_own = outcome["kind"] == "ok" and not is_childs and "same_as" not in outcome
        if charged != cost_of(name) and (charged or is_own):
            yield f"G13 {name} was charged {charged}, and its tool costs {cost_of(name)}"


CHECKS: Sequence[Callable[[RunReport], Iterable[str]]] = (
    _audited,
    _nothing_again,
    _calls,
    _reconciled,
    _within_policies,
    _approved,
    _results,
    _charged,
    _bounded,
    _hidden,
    _nothing_left,
)

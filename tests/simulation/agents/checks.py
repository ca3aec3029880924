"""What must hold of a history with runs, beside all that must hold of each: A1 to A17."""

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
    ASKING_TOOLS,
    DENIED_ORDER,
    FOUND_OUT_TOOLS,
    JUDGED_TOOLS,
    ONCE_TOOLS,
    STEPS_MAX,
    TOOL_CANARY,
    TOOLS,
    Json,
)
from tests.simulation.agents.tool_servers import cost_of

CALLS = "tools.orders"
ASK_PERSON = "ask_person"
OWN_TOOLS = CHILD_TOOLS | {ASK_PERSON}  # no server has them
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
    def deliveries(self) -> list[Reported]:
        """Each call as often as it was sent to a server, to begin with it or to go on."""
        going_on = self.events["tool_continue"]
        return [
            *self.events["tool_call"],
            *(Reported(one.record, one.body["call"]) for one in going_on),
        ]

    @cached_property
    def answers(self) -> dict[str, list[Json]]:
        """By call the answers of people that counted."""
        found: dict[str, list[Json]] = defaultdict(list)
        for applied in self.events["control_applied"]:
            if applied.body["effect"] == "answered":
                found[applied.body["control"]["call_id"]].append(applied.body["control"])
        return found

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

    def tool_of(self, call_id: str) -> str:
        """The tool of a call, without its toolset; empty if no committed step asks for it."""
        return str(self.asked.get(call_id, {}).get("tool", "")).rpartition(".")[2]


def _has_result(call: Json, outcome: Json) -> bool:
    """Whether a call of a step succeeded by the result of its own server."""
    is_own = call["tool"] not in OWN_TOOLS and "same_as" not in outcome
    return is_own and outcome["kind"] == "ok"


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
    for call in reply.deliveries:
        if any(end.at < call.at for end in reply.ended.get(call.body["call_id"], ())):
            yield f"A2 {call.body['call_id']} was called after its end"


def _calls(reply: RunReport) -> Iterator[str]:
    """A4 and A6: each delivery of a committed step; nothing else."""
    for call in (sent.body for sent in reply.deliveries):
        name = call["call_id"]
        asked = reply.asked.get(name)
        if asked is None or reply.edited.get(name, asked["args"]) != call["args"]:
            yield f"A4 {name} is of no committed step"
        if f"{call['toolset']}.{call['tool']}" not in TOOLS:
            yield f"A6 {name} calls {call['tool']}, which the agent does not have"
        if not str(call["args"].get("order_id")).isdecimal():
            yield f"A6 {name} has arguments outside of its schema"
    yield from (
        f"A4 {name} ended, and its step is not committed"
        for name in reply.ended
        if name not in reply.asked
    )


def _once(reply: RunReport) -> Iterator[str]:
    """A4: each delivery once, and nothing twice that may run once."""
    made = [call.body for call in reply.events["tool_call"]]
    published = Counter((call["call_id"], call["delivery"]) for call in made)
    yield from (f"A4 {name} was published {n} times" for name, n in published.items() if n > 1)
    tokens = Counter(
        (sent.body["call_id"], sent.body["reply"]["token"]) for sent in reply.deliveries
    )
    for (name, _), count in tokens.items():
        if count > 1:
            yield f"A4 {name} was published {count} times under one token"
    for call in made:
        if call["delivery"] > 1 and call["tool"] in ONCE_TOOLS:
            yield f"A4 {call['call_id']} was delivered twice, and may run once"
    for name, times in reply.history.tools.ran.items():
        if name not in reply.asked:
            yield f"A4 {name} ran, and its step is not committed"
        elif times > 1 and reply.tool_of(name) in ONCE_TOOLS:
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
    calls = [call.body for call in reply.events["tool_call"]]
    for call in (call for call in calls if call["tool"] in FOUND_OUT_TOOLS):
        name, delivery = call["call_id"], call["delivery"]
        asked = [one for one in questions[name] if moment(one["at"]) < moment(call["at"])]
        last = max(asked, key=lambda one: one["question"], default=None)
        found = reply.history.tools.found.get(last["reply"]["token"]) if last else None
        is_free = delivery == 1 or (found and found["kind"] == "did_not_happen")
        if not (is_free or delivery in allowed[name]):
            yield f"A14 {name}, delivery {delivery}: nobody knew that it had not run"
        if reply.history.tools.ran[name] > 1 and not allowed[name] - {1}:
            yield f"A14 {name} ran twice, and no person allowed that"


def _questions(reply: RunReport) -> Iterator[str]:
    """A15: each question is asked once, and answered once, by a person and not an application."""
    requested = Counter(
        (one.body["call_id"], one.body.get("number", 1)) for one in reply.events["input_requested"]
    )
    yield from (f"A15 {name} was asked {n} times" for name, n in requested.items() if n > 1)
    for applied in reply.events["control_applied"]:
        is_answer = applied.body["effect"] == "answered"
        if is_answer and f".{APPROVALS.name}." not in applied.body["event_id"]:
            yield f"A15 {applied.body['control']['call_id']} was answered by an application"
    for name, answers in reply.answers.items():
        numbers = Counter(answer.get("number", 1) for answer in answers)
        for number, count in numbers.items():
            if count > requested[name, number]:
                yield f"A15 {name}: question {number} was answered {count} times"


def _answers(reply: RunReport) -> Iterator[str]:
    """A15: what counts as an answer fits its schema, and ends the question of a model."""
    for name, answers in reply.answers.items():
        for value in (answer["value"] for answer in answers):
            is_declined = value is None and reply.tool_of(name) in ASKING_TOOLS
            if not (is_declined or (isinstance(value, dict) and "s" in value)):
                yield f"A15 {name} was answered outside of its schema: {value}"
    for name, call in reply.asked.items():
        outcome = reply.ended[name][0].body["outcome"] if name in reply.ended else {}
        if call["tool"] != ASK_PERSON or "same_as" in outcome:
            continue
        given = [{"kind": "ok", "value": one["value"]} for one in reply.answers.get(name, ())]
        if given != [outcome] and (given or outcome.get("kind") == "ok"):
            yield f"A15 {name} ended as {outcome}, and was answered {given}"


def _going_on(reply: RunReport) -> Iterator[str]:
    """A17: a call goes on from a state of its server, is not made again, and is answered once."""
    begun: dict[str, datetime] = {}
    given: dict[str, list[Json]] = defaultdict(list)
    for event in reply.events["tool_continue"]:
        name = event.body["call"]["call_id"]
        begun[name] = min(event.at, begun.get(name, event.at))
        if event.body["state"] not in reply.history.tools.kept[name]:
            yield f"A17 {name} goes on from a state that its server did not keep"
        if "given" in event.body:
            given[name].append(event.body["given"]["value"])
    for call in reply.events["tool_call"]:
        name = call.body["call_id"]
        if name in begun and call.at > begun[name]:
            yield f"A17 {name} was made again, and its server had kept a state"
    for name, values in given.items():
        answers = [answer["value"] for answer in reply.answers.get(name, ())]
        if any(value not in answers for value in values):
            yield f"A17 {name} was given what no person answered"
        if reply.tool_of(name) in ONCE_TOOLS and len(values) > len(answers):
            yield f"A17 {name} was given {len(values)} answers, and has {len(answers)}"


def _within_policies(reply: RunReport) -> Iterator[str]:
    """A13: no call goes out that its agent's policy denies."""
    for call in reply.events["tool_call"]:
        if call.body["tool"] in JUDGED_TOOLS and call.body["args"]["order_id"] == DENIED_ORDER:
            yield f"A13 {call.body['call_id']} was called, and the policy denies it"


def _needs_approval(call: Json) -> bool:
    """By the card of its tool, or by the policy of its agent."""
    is_asked = call["tool"] == "ship" and call["args"]["order_id"] == ASKED_ORDER
    return bool(is_asked or call["tool"] in ("pay", "claim"))


def _approved(reply: RunReport) -> Iterator[str]:
    """A5: no call that needs it goes out before an operator approved these arguments, once."""
    given: dict[tuple[str, str, int, int], list[Reported]] = defaultdict(list)
    for applied in reply.events["control_applied"]:
        if applied.body["effect"] == "approved":
            if f".{APPROVALS.name}." not in applied.body["event_id"]:  # which names its place
                yield f"A5 {applied.body['control']['call_id']} was approved by an application"
            control = applied.body["control"]
            place = control.get("delivery", 1), control.get("after_input", 0)
            given[control["call_id"], control["args_digest"], *place].append(applied)
    yield from (f"A5 {name} was approved twice" for name, found in given.items() if len(found) > 1)
    for call in reply.deliveries:
        before = given[call.body["call_id"], call.body["args_digest"], 1, 0]
        # By the worker's own times: what is committed at once is appended in no order.
        times = (moment(one.body["at"]) for one in before)
        if _needs_approval(call.body) and not any(at <= moment(call.body["at"]) for at in times):
            yield f"A5 {call.body['call_id']} was called without an approval"


def _results(reply: RunReport) -> Iterator[str]:
    """A4: a call ends with what its own server said, or was not heard to say in time."""
    tokens: dict[str, list[Json]] = defaultdict(list)
    for call in reply.deliveries:
        reported = reply.history.tools.said.get(call.body["reply"]["token"], [])
        tokens[call.body["call_id"]] += reported
    for name, ends in reply.ended.items():
        if name not in reply.asked:
            continue  # reported by `_calls`
        outcome = ends[0].body["outcome"]
        was_called = any(call.body["call_id"] == name for call in reply.events["tool_call"])
        tokens[name] += [
            {"kind": "ok", "value": found["value"]}
            for question in reply.events["tool_reconcile"]
            if question.body["call_id"] == name
            and (found := reply.history.tools.found.get(question.body["reply"]["token"]))
            and found["kind"] == "happened"
        ]
        if _has_result(reply.asked[name], outcome) and outcome not in tokens[name]:
            yield f"A4 {name} ended with what its server never said: {outcome}"
        if outcome["kind"] != "timed_out":
            continue
        tool = reply.tool_of(name)
        if outcome["ran"] == "no" and was_called and tool not in FOUND_OUT_TOOLS:
            yield f"A4 {name} was called, and is said not to have run"
        if tool in ASKING_TOOLS:
            continue  # a result counts only from who went on with it last, and had not asked
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
        for call in reply.deliveries:
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
        if charged != cost_of(name) and (charged or _has_result(reply.asked[name], outcome)):
            yield f"G13 {name} was charged {charged}, and its tool costs {cost_of(name)}"


CHECKS: Sequence[Callable[[RunReport], Iterable[str]]] = (
    _audited,
    _nothing_again,
    _calls,
    _once,
    _reconciled,
    _questions,
    _answers,
    _going_on,
    _within_policies,
    _approved,
    _results,
    _charged,
    _bounded,
    _hidden,
    _nothing_left,
)

"""A script for the provider and a request for each way in which a request can end."""

from dataclasses import dataclass
from typing import Any

from tests.integration.bus import ANSWERED, DEP_BUMP, Bus, create_topics, request
from tests.integration.evidence import Evidence, JsonObject, collect

OUTPUT_TOKENS = 4_096  # the default of a profile
RATIONALE = "a fixed release exists"
USAGE = {"input_tokens": 100, "output_tokens": 20}
TOKENS = 120  # of one call
GOOD = {**ANSWERED, "usage": USAGE}
REFUSE = {"kind": "refuse", "reason": "out_of_scope", "detail": "The advisory has no fix."}
UNPUBLISHED = {**DEP_BUMP, "manifest_path": "../../etc/passwd"}
ESCAPE = {**UNPUBLISHED, "rationale": RATIONALE}
INVALID = {"kind": "answered", "json": ESCAPE, "usage": USAGE}
PERSON: JsonObject = {
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 3}, "age": {"type": "integer"}},
    "required": ["name"],
    "additionalProperties": False,
}
WRAPPED = {"output": {"name": "Ann", "age": 3}, "success": True, "notes": ["short"]}
HONEST: JsonObject = {"output": None, "success": False, "notes": [], "failure_reason": "?"}
REPLAY = {
    "dead_letter_id": "replay-before.dead-letter",
    "round": 1,
    "account": "w-replay~73c237377c21",
    "by": "ops@acme",
    "edited": False,
}


def answered(value: Any) -> JsonObject:
    return {"kind": "answered", "json": value, "usage": USAGE}


def rule(request_id: str, reply: JsonObject, latency_s: float = 0.0, **when: Any) -> JsonObject:
    return {"when": {"request_id": request_id, **when}, "reply": reply, "latency_s": latency_s}


RULES = [
    # Were audit-only text ever shown to a model again, every case of a retry would fail.
    rule("*", {"kind": "rejected", "scope": "request", "code": "leak"}, contains=RATIONALE),
    rule("refusal-model", answered({**REFUSE, "rationale": RATIONALE})),
    rule("refusal-provider", {"kind": "refused", "reason": "No.", "category": "violence"}),
    rule("refusal-retried", {"kind": "refused", "reason": "No."}, attempt=1),
    # Only a prompt that carries the problem gets the good answer.
    rule("retried", GOOD, contains="/manifest_path: expected a relative path"),
    rule("retried", INVALID),
    rule("malformed", GOOD, contains="reading stopped at byte 1"),
    rule("malformed", {"kind": "answered", "content": "{'a': 1}", "usage": USAGE}),
    rule("truncated", {"kind": "truncated"}, attempt=1),
    rule("truncated", {"kind": "truncated"}, attempt=2),
    rule("exhausted", INVALID),
    rule("invalid", INVALID),
    rule("unvalidated", answered({"answer": ESCAPE})),  # a union at the root travels in a box
    rule("text", {"kind": "answered", "content": 'It {is} "text".\n', "usage": USAGE}),
    rule("wrapped", answered({**WRAPPED, "failure_reason": None})),
    rule(
        "honest", answered({"output": None, "success": False, "notes": [], "failure_reason": "?"})
    ),
    rule("bare", answered({"name": "Joanna", "age": None}), attempt=1),
    rule("bare", answered({"name": "Bob", "age": None})),
    rule("rejected", {"kind": "rejected", "scope": "request", "status": 400, "code": "bad"}),
    rule("slow", GOOD, latency_s=2.0),
    rule("hanging", {"kind": "hang"}),
    rule("throttled", {"kind": "throttled", "retry_after_s": 0.2}, attempt=1),
    rule("throttled-long", {"kind": "throttled", "retry_after_s": 60}),
    rule("failing", {"kind": "unavailable", "status": 500}, attempt=1),
    rule("huge", {"kind": "answered", "content": "x" * (256 * 1024 + 1), "usage": USAGE}),
    rule("*", GOOD),
]


def profiles(bus: Bus) -> str:
    """Profiles of their own for what makes a worker leave a provider alone for a while."""
    return (
        bus.scripted("hanging", timeout_s=3)
        + bus.scripted("throttling")
        + bus.scripted("throttling-long")
        + bus.scripted("priced")
        + "price = {input_usd = 1.0, output_usd = 10.0}\n"
    )


def ask(name: str, workflow_id: str | None = None, **more: Any) -> JsonObject:
    return request(name, workflow_id or f"w-{name}", **more)


def inline(schema: Any, **more: Any) -> JsonObject:
    return {"kind": "inline", "name": "person", "json_schema": schema, **more}


HOSTILE = inline({"$ref": "http://127.0.0.1:1/schema.json"})
LAST = {"at_last": "unvalidated"}
REQUESTED: list[JsonObject] = [
    ask("result", labels={"tenant": "acme"}, context={"instructions": "Fix ünïcode."}),
    ask("refusal-model"),
    ask("refusal-provider"),
    ask("refusal-retried", policy={"on_refusal": "retry"}),
    ask("retried"),
    ask("malformed"),
    ask("truncated"),
    ask("exhausted", budget={"attempts": 2}),
    ask("invalid", policy={"on_invalid": "dead_letter"}),
    ask("unvalidated", budget={"attempts": 1}, policy=LAST),
    ask("text", answer_schema={"kind": "text"}),
    ask("wrapped", answer_schema=inline(PERSON)),
    ask("honest", answer_schema=inline(PERSON)),
    ask("bare", answer_schema=inline(PERSON, wrapped=False)),
    ask("unknown-schema", answer_schema={"kind": "contract", "name": "nope", "version": 1}),
    ask("hostile-schema", answer_schema=HOSTILE),
    ask("unknown-profile", profile="nope"),
    ask("rejected"),
    ask("slow", "w-waiting"),
    ask("waiting", "w-waiting", ttl_s=1),
    ask("hanging", profile="hanging", ttl_s=2),
    ask("throttled", profile="throttling"),
    ask("throttled-long", profile="throttling-long", ttl_s=2),
    ask("failing"),
    ask("misspelt", budgte={"attempts": 1}, context={"instructions": "Go.", "fact": []}),
    ask("few-tokens", budget={"attempts": 3, "tokens": 1_000}),
    ask("tokens", budget={"attempts": 3, "tokens": 30_000}),
    ask("money", profile="priced", budget={"attempts": 3, "micro_usd": 1_000_000}),
    ask("replay-before", "w-replay", budget={"attempts": 1}),
    ask("replay", "w-replay", budget={"attempts": 1}, replay=REPLAY),
    ask("replay-after", "w-replay", budget={"attempts": 9}),
    ask("huge", answer_schema={"kind": "text"}),
    ask("too-large", context={"instructions": "x" * 520 * 1024}),
]


@dataclass(frozen=True)
class Run:
    """What the broker holds when all is over, and the calls that the provider saw."""

    evidence: Evidence
    calls: list[JsonObject]

    def terminal(self, request_id: str) -> JsonObject:
        return self.evidence.terminal(request_id)

    def calls_of(self, request_id: str) -> int:
        return sum(call["request_id"] == request_id for call in self.calls)


async def play(bus: Bus) -> Run:
    """All cases: published, answered, the worker drained, the broker read."""
    await create_topics(bus)
    try:
        worker = bus.start_worker(bus.config(RULES, profiles(bus)))
        await bus.publish([ask("first")])
        await bus.terminals(1)  # deadlines should not run while the worker joins its group
        await bus.publish(REQUESTED)
        await bus.terminals(1 + len(REQUESTED))
        assert worker.terminate() == 0
    finally:
        bus.stop_workers()
    return Run(await collect(bus), bus.calls())

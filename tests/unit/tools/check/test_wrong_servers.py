"""`tools check` against servers that each break one rule: it names that rule, and no other."""

import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import pytest

from answerbus.client.bus import Bus
from answerbus.toolset_card import ToolCard, ToolsetCard
from services.tools import session
from services.tools.caller import Reply
from services.tools.check.cases import Sample
from services.tools.session import CheckedServer, check, hand_caller

Json = dict[str, Any]
Record = tuple[int, bytes | None, Json | bytes]  # partition, key, value
SCHEMA: Json = {
    "type": "object",
    "properties": {"phrase": {"type": "string"}},
    "required": ["phrase"],
}
CARD = ToolsetCard(
    toolset="echo",
    tools=(ToolCard(name="echo", description="Again.", args_schema=SCHEMA, approval="always"),),
)
NOW = datetime(2026, 11, 21, 10, 0, tzinfo=UTC)
PLACE = "answers have their form and their place"


class Server:
    """One that keeps all rules; others break one of them."""

    reads_uncommitted = False

    def __init__(self) -> None:
        self.answered: list[str] = []

    def take(self, value: bytes) -> list[Record]:
        try:
            event = json.loads(value)
        except ValueError:
            return self.on_no_json()
        if not self.is_mine(event) or self.is_late(event):
            return []
        self.answered.append(event["call_id"])
        return [self.record(event, self.outcome(event))]

    def on_no_json(self) -> list[Record]:
        return []

    def is_mine(self, event: Any) -> bool:
        is_call = isinstance(event, dict) and event.get("kind") == "tool_call"
        return is_call and event["toolset"] == "echo"

    def is_late(self, event: Json) -> bool:
        return datetime.fromisoformat(event["expires_at"]) <= NOW

    def outcome(self, event: Json) -> Json:
        if event["tool"] != "echo":
            return self.error("unknown_tool")
        if not isinstance(event["args"].get("phrase"), str):
            return self.error("invalid_args")
        if event["approved"] is None:
            return self.error("not_approved")
        return {"kind": "ok", "value": event["args"]["phrase"]}

    def error(self, code: str) -> Json:
        return {"kind": "error", "code": code}

    def record(self, event: Json, outcome: Json) -> Record:
        reply = event["reply"]
        result = {
            "kind": "tool_result",
            "call_id": event["call_id"],
            "workflow_id": event["workflow_id"],
            "token": reply["token"],
            "outcome": outcome,
        }
        if event["kind"] == "tool_reconcile":
            result = {**result, "kind": "tool_reconciled", "finding": outcome}
        return reply["partition"], reply["key"].encode(), result


class FindsOut(Server):
    """Its tool can be asked what became of a call."""

    def take(self, value: bytes) -> list[Record]:
        if b'"tool_reconcile"' not in value:
            return super().take(value)
        event = json.loads(value)
        ran = event["call_id"] in self.answered
        return [self.record(event, self.finding(ran=ran))]

    def finding(self, *, ran: bool) -> Json:
        return {"kind": "happened", "value": 1} if ran else {"kind": "did_not_happen"}


class SaysThatAllHappened(FindsOut):
    def finding(self, *, ran: bool) -> Json:
        return super().finding(ran=ran or True)


class FindsNothingOut(FindsOut):
    def finding(self, *, ran: bool) -> Json:
        del ran
        return {"kind": "unknown"}


class DiesOfBadJson(Server):
    is_dead = False

    def on_no_json(self) -> list[Record]:
        self.is_dead = True
        return []

    def take(self, value: bytes) -> list[Record]:
        return [] if self.is_dead else super().take(value)


class ReadsUncommitted(Server):
    reads_uncommitted = True


class TakesCallsOfOthers(Server):
    def is_mine(self, event: Any) -> bool:
        return isinstance(event, dict) and event.get("kind") == "tool_call"


class RunsWhatHasExpired(Server):
    def is_late(self, event: Json) -> bool:
        del event
        return False


class IgnoresUnknownTools(Server):
    def is_mine(self, event: Any) -> bool:
        return super().is_mine(event) and ("last" in event["call_id"] or event["tool"] == "echo")


class RunsUnknownTools(Server):
    def outcome(self, event: Json) -> Json:
        return super().outcome({**event, "tool": "echo"})


class HasOneCode(Server):
    def error(self, code: str) -> Json:
        del code
        return super().error("failed")


class TakesAnyArguments(Server):
    def outcome(self, event: Json) -> Json:
        args = {"phrase": str(event["args"].get("phrase"))}
        return super().outcome({**event, "args": args})


class AsksNoPerson(Server):
    def outcome(self, event: Json) -> Json:
        return super().outcome({**event, "approved": {}})


class AnswersOtherwiseEachTime(Server):
    def outcome(self, event: Json) -> Json:
        found = super().outcome(event)
        return {**found, "value": len(self.answered)} if found["kind"] == "ok" else found


class FailsAlways(Server):
    def outcome(self, event: Json) -> Json:
        found = super().outcome(event)
        return self.error("failed") if found["kind"] == "ok" else found


def changed(change: Callable[[int, bytes | None, Json], Record]) -> type[Server]:
    """One whose answers are written otherwise."""

    class Changed(Server):
        def record(self, event: Json, outcome: Json) -> Record:
            partition, key, value = super().record(event, outcome)
            assert isinstance(value, dict)
            return change(partition, key, value)

    return Changed


TOKEN = "AAAAAAAAAAAAAAAAAAAAAA=="
OTHER_TOKEN = "BBBBBBBBBBBBBBBBBBBBBB=="
LAST = "a server goes on after all of this"
UNKNOWN = "an unknown tool is an error"
ARGS = "wrong arguments are an error"
APPROVAL = "a call without approval does not run"
ANSWERED = "a call is answered"
AGAIN = "a repeated call has the same answer"
NOT_READ = {LAST, UNKNOWN, ARGS, APPROVAL, ANSWERED, AGAIN} | {
    f"{what} is skipped"
    for what in (
        "bad JSON",
        "a text that is not an event",
        "a record without a value's fields",
        "an event of another kind",
    )
}
SERVERS: list[tuple[str, type[Server], set[str]]] = [
    ("good", Server, set()),
    ("dies of bad JSON", DiesOfBadJson, NOT_READ),
    ("reads what is not committed", ReadsUncommitted, {"an aborted call is not read"}),
    ("another toolset's", TakesCallsOfOthers, {"another toolset's call is left alone"}),
    ("expired", RunsWhatHasExpired, {"an expired call does not run"}),
    ("says nothing of unknown tools", IgnoresUnknownTools, {UNKNOWN}),
    ("runs any tool", RunsUnknownTools, {UNKNOWN}),
    ("one code", HasOneCode, {UNKNOWN, ARGS, APPROVAL}),
    ("any arguments", TakesAnyArguments, {ARGS}),
    ("no person", AsksNoPerson, {APPROVAL}),
    ("again each time", AnswersOtherwiseEachTime, {AGAIN}),
    ("fails always", FailsAlways, {ANSWERED}),
    ("other partition", changed(lambda p, k, v: (p + 1, k, v)), {PLACE}),
    ("other key", changed(lambda p, _, v: (p, b"other", v)), {PLACE}),
    ("no key", changed(lambda p, _, v: (p, None, v)), {PLACE}),
    ("other token", changed(lambda p, k, v: (p, k, {**v, "token": OTHER_TOKEN})), {PLACE}),
    ("other workflow", changed(lambda p, k, v: (p, k, {**v, "workflow_id": "w"})), {PLACE}),
    ("a null", changed(lambda p, k, v: (p, k, {**v, "server": None})), {PLACE}),
    ("no outcome", changed(lambda p, k, v: (p, k, {**v, "outcome": 1})), {PLACE, *NOT_READ}),
    ("no JSON", changed(lambda p, k, v: (p, k, str(v).encode())), {PLACE, *NOT_READ}),
]


HAPPENED = "a call that ran is reported as happened"
NEVER_MADE = "a call that was never made is not reported as happened"
RECONCILERS: list[tuple[str, type[Server], set[str]]] = [
    ("good", FindsOut, set()),
    ("says nothing", Server, {HAPPENED, NEVER_MADE}),
    ("all happened", SaysThatAllHappened, {NEVER_MADE}),
    ("finds nothing out", FindsNothingOut, {HAPPENED}),
]


class Caller:
    """See services.tools.caller: what is published is served at once."""

    def __init__(self, server: Server) -> None:
        self._server, self._found = server, list[Record]()

    async def publish(self, values: Sequence[bytes]) -> None:
        for value in values:
            self._found += self._server.take(value)

    async def publish_aborted(self, value: bytes, _: str) -> None:
        if self._server.reads_uncommitted:
            await self.publish([value])

    async def replies(self) -> Sequence[Reply]:
        found, self._found = self._found, []
        return [
            Reply.read(partition, key, v if isinstance(v, bytes) else json.dumps(v).encode())
            for partition, key, v in found
        ]


@pytest.mark.parametrize(
    ("server", "rules"), [one[1:] for one in SERVERS], ids=[s[0] for s in SERVERS]
)
async def test_the_rule_that_a_server_breaks_is_named(
    server: type[Server], rules: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert await broken_rules(server, CARD, monkeypatch) == rules


@pytest.mark.parametrize(
    ("server", "rules"), [one[1:] for one in RECONCILERS], ids=[s[0] for s in RECONCILERS]
)
async def test_a_reconciler_that_lies_is_named(
    server: type[Server], rules: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tool,) = CARD.tools
    once = tool.model_copy(update={"delivery": "at_most_once", "reconcilable": True})
    card = CARD.model_copy(update={"tools": (once,)})

    assert await broken_rules(server, card, monkeypatch) == rules


async def broken_rules(
    server: type[Server], card: ToolsetCard, monkeypatch: pytest.MonkeyPatch
) -> set[str]:
    @asynccontextmanager
    async def calling(*_: Any) -> AsyncIterator[Caller]:
        yield Caller(server())

    async def cards(_: Bus) -> Sequence[ToolsetCard]:
        return [card]

    monkeypatch.setattr(session, "calling", calling)
    monkeypatch.setattr(session, "cards", cards)
    monkeypatch.setattr(session, "QUIET_S", 0.01)
    bus = Bus("nowhere:9092", "answerbus", {})
    sample = Sample("echo", {"phrase": "Hello"}, "ops")
    checked = CheckedServer("echo", hand_caller(bus, "checker", TOKEN), NOW, 0.1, sample)

    found = await check(bus, checked, lambda _: None)

    return {one.rule for one in found if one.verdict == "wrong"}

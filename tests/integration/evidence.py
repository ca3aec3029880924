"""What a run left on the broker, read when its workers have gone, and what holds of every run."""

import base64
import hashlib
import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import rfc8785
from aiokafka import ConsumerRecord
from aiokafka.partitioner import murmur2

from answerbus.topics import (
    ATTEMPTS,
    DEAD_LETTERS,
    LEDGER,
    REFUSALS,
    REQUESTS,
    RESULTS,
    RETRIES,
    TOPICS,
    Topic,
)
from tests.integration.bus import TERMINAL_KINDS, Bus

JsonObject = dict[str, Any]
CallKey = tuple[str, int]  # request id and attempt


@dataclass(frozen=True)
class Event:
    topic: Topic
    record: ConsumerRecord
    body: JsonObject

    @property
    def headers(self) -> dict[str, str]:
        return {name: value.decode() for name, value in self.record.headers}


@dataclass(frozen=True)
class Evidence:
    """All records of all topics; a partition's are in order."""

    partitions: int
    records: dict[Topic, list[ConsumerRecord]]

    @cached_property
    def written(self) -> list[Event]:
        """All events that workers wrote."""
        return [
            Event(topic, record, json.loads(record.value))
            for topic, records in self.records.items()
            for record in records
            if topic is not REQUESTS and record.value is not None
        ]

    def bodies(self, topic: Topic) -> list[JsonObject]:
        """The events of a topic."""
        return [event.body for event in self.written if event.topic is topic]

    @cached_property
    def terminals(self) -> list[JsonObject]:
        """All terminal events."""
        topics = {RESULTS, REFUSALS, DEAD_LETTERS}
        found = [event.body for event in self.written if event.topic in topics]
        assert {body["kind"] for body in found} <= TERMINAL_KINDS
        return found

    def terminal(self, request_id: str) -> JsonObject:
        """The one terminal of a request."""
        (found,) = [body for body in self.terminals if body["request_id"] == request_id]
        return found

    def attempts(self, request_id: str) -> list[JsonObject]:
        """How each spend of a request ended."""
        return [a for a in self.bodies(ATTEMPTS) if a["request_id"] == request_id]

    def retries(self, request_id: str) -> list[JsonObject]:
        return [r for r in self.bodies(RETRIES) if r["request_id"] == request_id]

    @cached_property
    def accounts(self) -> dict[str, JsonObject]:
        """Each account as the ledger shows it in the end."""
        return {body["account_id"]: body for body in self._ledger("account")}

    def lane(self, workflow_id: str) -> int:
        """The partition that owns a workflow, by another's murmur2 than the worker's."""
        return int(murmur2(workflow_id.encode()) & 0x7FFFFFFF) % self.partitions

    def spends(self) -> set[tuple[str, CallKey]]:
        """Every spend that was ever committed, by its account."""
        return {
            (account["account_id"], (spend["request_id"], spend["attempt"]))
            for account in self._ledger("account")
            for spend in account["in_flight"]
        }

    def _ledger(self, kind: str) -> Iterator[JsonObject]:
        return (body for body in self.bodies(LEDGER) if body["kind"] == kind)

    def closed(self) -> Counter[tuple[str, str]]:
        """What the ledger says is closed, and how."""
        return Counter((body["closes"], body["outcome"]) for body in self._ledger("closed"))

    def still_retried(self) -> set[bytes]:
        """The keys of the retries topic that no null value has ended."""
        last = {record.key: record.value for record in self.records[RETRIES]}
        return {key for key, value in last.items() if value is not None}


async def collect(bus: Bus) -> Evidence:
    """Read everything, once no transaction is under way."""
    await bus.settled()
    return Evidence(bus.partitions, {topic: await bus.records(topic) for topic in TOPICS})


def assert_sound(evidence: Evidence) -> None:
    """What holds of every run, for all requests and faults."""
    _assert_one_terminal_each(evidence)
    _assert_one_attempt_per_spend(evidence)
    _assert_chained(evidence)
    _assert_within_budget(evidence)
    _assert_at_rest(evidence)
    for event in evidence.written:
        workflow_id = event.body.get("workflow_id")
        if workflow_id is not None and event.body.get("request", True) is not None:
            assert event.record.partition == evidence.lane(workflow_id), event


def _assert_one_terminal_each(evidence: Evidence) -> None:
    ids = Counter(body.get("event_id") or body["dead_letter_id"] for body in evidence.terminals)
    answered = Counter(
        body["request_id"] for body in evidence.terminals if body.get("request", True) is not None
    )

    assert set(ids.values()) | set(answered.values()) <= {1}
    assert set(evidence.closed().values()) <= {1}
    assert {closes for (closes, how) in evidence.closed() if how != "forwarded"} == {
        closes_of(body) for body in evidence.terminals
    }


def closes_of(terminal: JsonObject) -> str:
    """What a terminal closes: its request, or the place of a record that is not a request."""
    if terminal.get("request", True) is not None:
        return str(terminal["request_id"])
    origin = terminal["origin"]
    return f"{origin['topic']}-{origin['partition']}-{origin['offset']}"


def _assert_one_attempt_per_spend(evidence: Evidence) -> None:
    reported = Counter(
        (a["account_id"], (a["request_id"], a["attempt"])) for a in evidence.bodies(ATTEMPTS)
    )

    spent = Counter(evidence.spends())
    assert (reported - spent, spent - reported) == (Counter(), Counter())


def _assert_chained(evidence: Evidence) -> None:
    last: dict[str, str] = {}
    for attempt in evidence.bodies(ATTEMPTS):
        unhashed = {name: value for name, value in attempt.items() if name != "hash"}
        digest = hashlib.sha256(rfc8785.dumps(unhashed)).hexdigest()

        assert attempt["hash"] == f"sha256:{digest}"
        assert attempt["previous"] == last.get(attempt["account_id"])
        last[attempt["account_id"]] = attempt["hash"]
    for account_id, account in evidence.accounts.items():
        assert account["last_attempt_hash"] == last.get(account_id)


def _assert_within_budget(evidence: Evidence) -> None:
    counted = Counter(a["account_id"] for a in evidence.bodies(ATTEMPTS) if a["counted"])
    for account in evidence._ledger("account"):
        limit, spent, pending = account["limit"], account["spent"], account["in_flight"]

        assert spent["attempts"] + len(pending) <= limit["attempts"]
        for money in ("tokens", "micro_usd"):
            used = spent[money] + sum(spend[money] for spend in pending)
            assert limit[money] is None or used <= limit[money]
    for account_id, account in evidence.accounts.items():
        assert account["spent"]["attempts"] == counted[account_id]


def _assert_at_rest(evidence: Evidence) -> None:
    """Once all is answered, nothing is in flight, nothing open, nothing left to retry."""
    assert evidence.still_retried() == set()
    for account in evidence.accounts.values():
        assert (account["in_flight"], account["open"]) == ([], [])


def raw_of(dead_letter: JsonObject) -> tuple[bytes | None, list[tuple[str, bytes | None]]]:
    """The record that a letter is about, as far as it holds it."""
    raw = dead_letter["raw"]
    value = None if raw["base64"] is None else base64.b64decode(raw["base64"])
    headers = [
        (name, None if text is None else base64.b64decode(text)) for name, text in raw["headers"]
    ]
    return value, headers

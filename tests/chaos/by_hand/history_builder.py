"""Histories made by hand: what a worker that does everything right writes, one step at a time."""

import copy
import json
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from tests.chaos.audit.canonical import digest, owner
from tests.chaos.audit.history import Call, History
from tests.chaos.audit.record import Headers, Record
from tests.chaos.audit.traces import HEADER
from tests.chaos.by_hand import made
from tests.chaos.by_hand.made import Json

START = datetime(2026, 11, 21, 9, tzinfo=UTC)
STEP_S = 0.1  # between any two things that happen
UNTOLD = {"input_tokens": None, "output_tokens": None, "micro_usd": None}
WORST_TOKENS = 100  # what a call costs whose usage nobody reported


@dataclass
class HistoryBuilder:
    """Each step takes the moment and the offset that come next; `changes` is what it gets wrong."""

    partitions: int = 1
    now: datetime = START
    records: list[Record] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    accounts: dict[str, Json] = field(default_factory=dict)
    asked: dict[str, tuple[Json, Record]] = field(default_factory=dict)
    settled: set[str] = field(default_factory=set)  # accounts whose limit a request has named

    def history(self) -> History:
        """All of it, and nothing is left to be read."""
        ends = {r.partition: r.offset + 1 for r in self.records if r.topic == "requests"}
        return History(made.PREFIX, self.partitions, self.records, self.calls, ends)

    def ask(self, id_: str, workflow: str = "w", partition: int = 0, **more: Any) -> Record:
        """Upstream publishes a request for plain text."""
        body = made.event("request", request_id=id_, workflow_id=workflow, **more)
        record = self.put("requests", partition, b"", json.dumps(body).encode())
        name, is_new = made.account_id(body), id_ not in self.asked
        self.asked.setdefault(id_, (body, record))
        if name not in self.accounts:
            self.accounts[name] = made.account(workflow, body)
            if "budget" in more:
                self.settled.add(name)
        elif is_new and "budget" not in more and name not in self.settled:
            self.accounts[name]["limit"]["attempts"] += 3  # by default
        return record

    def spend(self, id_: str, attempt: int = 1) -> None:
        """The spend of an attempt is committed."""
        account = self._account(id_)
        spent = {"request_id": id_, "attempt": attempt, "tokens": WORST_TOKENS, "micro_usd": 0}
        account["in_flight"].append({**spent, "at": self._text()})
        account["open"] = [{"request_id": id_, "attempts": attempt}]
        self.write("account", **account)

    def call(
        self, id_: str, attempt: int = 1, reply: str | None = "answered", pid: int = 1
    ) -> None:
        """The provider notes a call; `never` as a reply is a call whose process died."""
        started = self.tick()
        ended = None if reply == "never" else self.tick()
        self.calls.append(Call(id_, attempt, pid, started, ended, reply if ended else None))

    def settle(self, id_: str, attempt: int = 1, outcome: str = "result", **changes: Any) -> None:
        """How a spend ended; `failure` is a key of made.FAILURES."""
        account = self._account(id_)
        spent = next(e for e in account["in_flight"] if e["attempt"] == attempt)
        account["in_flight"].remove(spent)
        is_told = outcome in {"result", "refusal", "dead_letter", "step"}
        usage = {"input_tokens": 10, "output_tokens": 2, "micro_usd": None} if is_told else UNTOLD
        attempt_event = self.write(
            "attempt",
            **{
                "event_id": f"{id_}.attempt.{attempt}",
                "request_id": id_,
                "workflow_id": account["workflow_id"],
                "account_id": account["account_id"],
                "attempt": attempt,
                "outcome": outcome,
                "usage": usage,
                "started_at": spent["at"],
                "worker": "one",
                "prompt_digest": digest(f"{id_} {attempt}"),
                "previous": account["last_attempt_hash"],
                **changes,
                "failure": made.FAILURES[changes.get("failure")],
            },
        )
        if attempt_event["counted"]:
            account["spent"]["attempts"] += 1
            account["spent"]["tokens"] += 12 if is_told else WORST_TOKENS
        account["last_attempt_hash"] = attempt_event["hash"]
        self.write("account", **account)

    def end(self, id_: str, kind: str = "result", attempt: int = 1, **changes: Any) -> None:
        """The terminal, and what the ledger says of it."""
        self.tell(id_, kind, attempt, **changes)
        account = self._account(id_)
        account["open"] = []
        self.write("account", **account)
        body = self.asked[id_][0]
        self.close(id_, kind, digest(body), body["workflow_id"])

    def tell(self, id_: str, kind: str = "result", attempt: int = 1, **changes: Any) -> None:
        """The terminal alone; `partition` is where it is put."""
        partition = changes.pop("partition", None)
        body, record = self.asked[id_]
        shared = {"request_id": id_, "workflow_id": body["workflow_id"]}
        shared |= {"account": made.state(self._account(id_))}
        if kind == "dead_letter":
            dead_letter = {
                "dead_letter_id": f"{id_}.dead-letter",
                "request": made.whole(body),
                "at": self._text(),
            }
            self.write(
                kind,
                partition,
                **{**shared, **dead_letter, "origin": made.origin(record), **changes},
            )
            return
        times = {"requested_at": made.text(record.timestamp), "finished_at": self._text()}
        suffix = kind.removeprefix("unvalidated_")
        event = {"event_id": f"{id_}.{suffix}", "attempt": attempt, "schema": TEXT, **times}
        self.write(kind, partition, **{**shared, **event, **changes})

    def work(self, id_: str, attempt: int = 1) -> None:
        """From the spend to the result, without any trouble."""
        self.spend(id_, attempt)
        self.call(id_, attempt)
        self.settle(id_, attempt)
        self.end(id_, attempt=attempt)

    def fail(self, id_: str, attempt: int = 1) -> None:
        """An attempt whose answer is invalid, and the list of retries."""
        self.spend(id_, attempt)
        self.call(id_, attempt)
        self.settle(id_, attempt, "retry", failure="invalid")
        body, record = self.asked[id_]
        self.write(
            "retry_request",
            event_id=f"{id_}.retry.{attempt + 1}",
            request_id=id_,
            workflow_id=body["workflow_id"],
            request=made.whole(body),
            origin=made.origin(record),
            next_attempt=attempt + 1,
            account=made.state(self._account(id_)),
        )

    def unlist(self, id_: str) -> None:
        """The request is taken off the list of retries."""
        workflow = self.asked[id_][0]["workflow_id"]
        key = f"{id_}@{workflow}".encode()
        self.put("retries", owner(workflow, self.partitions), key, None)

    def refuse(self, record: Record, cause: str = "conflicting_id") -> None:
        """A letter about a record that became no request."""
        place = made.place_id(record)
        fields: Json = {"request_id": None, "workflow_id": None, "request": None, "account": None}
        fields |= {"origin": made.origin(record), "at": self._text()}
        what = {"kind": cause, **({"problems": []} if cause == "undecodable" else {})}
        fields |= {"dead_letter_id": f"{place}.dead-letter", "cause": what}
        self.write("dead_letter", record.partition, **fields)
        self.close(place, "dead_letter", digest("x"), None, record.partition)

    def forward(self, record: Record, partition: int) -> Record:
        """The copy of a misrouted record for its owner."""
        place = f"{record.partition}/{record.offset}/{round(record.timestamp.timestamp() * 1000)}"
        self.close(made.place_id(record), "forwarded", digest("x"), None, record.partition)
        headers = (("answerbus_forwarded", place.encode()),)
        return self.put("requests", partition, record.key, record.value, headers)

    def close(
        self,
        closes: str,
        outcome: str,
        body: str,
        workflow: str | None,
        partition: int | None = None,
    ) -> None:
        """The ledger's entry for what has had its event."""
        fields = {"closes": closes, "outcome": outcome, "body_digest": body, "at": self._text()}
        self.write("closed", partition, workflow_id=workflow, **fields)

    def write(self, kind: str, partition: int | None = None, /, **members: Any) -> Json:
        """An event of ours in its place."""
        body = copy.deepcopy(made.event(kind, **members))
        place = owner(body["workflow_id"], self.partitions) if partition is None else partition
        headers = (("ce_type", f"answerbus.{kind}.v1".encode()), *made.traced(body))
        self.put(made.TOPIC_OF[kind], place, made.key(body), json.dumps(body).encode(), headers)
        return body

    def retrace(self, kind: str, span: str | None, trace: str = made.TRACE) -> None:
        """The last event of that kind names another span, or none."""
        typed = f"answerbus.{kind}.v1"
        place = max(n for n, one in enumerate(self.records) if one.header("ce_type") == typed)
        record = self.records[place]
        headers = tuple(header for header in record.headers if header[0] != HEADER)
        named = () if span is None else (made.traceparent(span, trace),)
        self.records[place] = replace(record, headers=(*headers, *named))

    def put(
        self,
        topic: str,
        partition: int,
        key: bytes | None,
        value: bytes | None,
        headers: Headers = (),
    ) -> Record:
        """A record at the end of a partition."""
        offset = sum((r.topic, r.partition) == (topic, partition) for r in self.records)
        record = Record(topic, partition, offset, self.tick(), key, value, headers)
        self.records.append(record)
        return record

    def tick(self, seconds: float = STEP_S) -> datetime:
        """The next moment."""
        self.now += timedelta(seconds=seconds)
        return self.now

    def _account(self, id_: str) -> Json:
        return self.accounts[made.account_id(self.asked[id_][0])]

    def _text(self) -> str:
        return made.text(self.tick())


TEXT = {"kind": "text", "digest": digest({"type": "string"})}

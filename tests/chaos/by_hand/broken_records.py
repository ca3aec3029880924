"""G1, G2 and G10 broken: records lost, doubled or invented."""

import hashlib

from tests.chaos.audit.canonical import digest
from tests.chaos.by_hand.broken import attempted, breaks
from tests.chaos.by_hand.history_builder import HistoryBuilder


@breaks("G1", "r", "no terminal")
def request_lost(builder: HistoryBuilder) -> None:
    builder.ask("r")


@breaks("G1", "made.requests.v1-0-0", "no letter about it")
def garbage_lost(builder: HistoryBuilder) -> None:
    builder.put("requests", 0, b"", b"no JSON")


@breaks("G1", "made.requests.v1-0-1", "its body is another")
def conflict_lost(builder: HistoryBuilder) -> None:
    builder.ask("r")
    builder.work("r")
    builder.ask("r", labels={"another": "body"})


@breaks("G1", "made.requests.v1-1-0", "neither forwarded nor refused", partitions=2)
def stray_lost(builder: HistoryBuilder) -> None:
    builder.ask("r", partition=1)


@breaks("G1", "made.requests.v1-1-0", "2 forwarded copies", partitions=2)
def forwarded_twice(builder: HistoryBuilder) -> None:
    stray = builder.ask("r", partition=1)
    builder.forward(stray, 0)
    builder.forward(stray, 0)
    builder.work("r")


@breaks("G1", "made.requests.v1-0-0", "its owner forwarded it")
def forwarded_by_its_owner(builder: HistoryBuilder) -> None:
    builder.forward(builder.ask("r"), 0)
    builder.work("r")


@breaks("G1", "made.requests.v1-0-0", "where it never stood", partitions=2)
def forwarded_from_nowhere(builder: HistoryBuilder) -> None:
    builder.forward(builder.ask("r", partition=1), 0)
    builder.records = [r for r in builder.records if r.partition == 0]
    builder.work("r")


@breaks("G2", "ledger-0-4", "no chunk has")
def closed_id_ended_without_a_chunk(builder: HistoryBuilder) -> None:
    builder.ask("r")
    builder.work("r")
    builder.put("ledger", 0, b"closed:r@w", None)


@breaks("G1", "made.requests.v1-0-0", "it is a request")
def request_refused(builder: HistoryBuilder) -> None:
    builder.refuse(builder.ask("r"), "undecodable")


@breaks("G1", "made.requests.v1-0-0", "2 letters")
def refused_twice(builder: HistoryBuilder) -> None:
    garbage = builder.put("requests", 0, b"", b"no JSON")
    builder.refuse(garbage, "undecodable")
    builder.refuse(garbage, "undecodable")


@breaks("G1", "r", "is not there")
def terminal_invented(builder: HistoryBuilder) -> None:
    builder.ask("r")
    builder.records.clear()
    builder.tell("r")


@breaks("G1", "made.requests.v1-0-0.dead-letter", "is not there")
def dead_letter_invented(builder: HistoryBuilder) -> None:
    builder.refuse(builder.put("requests", 0, b"", b"no JSON"), "undecodable")
    builder.records = [r for r in builder.records if r.topic == "dead-letters"]


@breaks("G1", "ghost", "there is no event")
def closed_for_nothing(builder: HistoryBuilder) -> None:
    builder.close("ghost", "result", digest("x"), "w")


@breaks("G1", "r", "no record of it was")
def asked_at_another_time(builder: HistoryBuilder) -> None:
    attempted(builder)
    builder.end("r", requested_at="2026-11-21T08:00:00.000Z")


@breaks("G2", "r", "2 terminals")
def answered_and_refused(builder: HistoryBuilder) -> None:
    builder.ask("r")
    builder.work("r")
    builder.tell("r", "refusal")


@breaks("G2", "r", "not r.result")
def terminal_with_an_id_of_its_own(builder: HistoryBuilder) -> None:
    attempted(builder)
    builder.end("r", event_id="r.result.1")


@breaks("G2", "r", "no closed entry")
def terminal_not_closed(builder: HistoryBuilder) -> None:
    builder.ask("r")
    builder.work("r")
    assert builder.records.pop().topic == "ledger"


@breaks("G2", "r", "it ended as")
def closed_as_something_else(builder: HistoryBuilder) -> None:
    builder.ask("r")
    builder.work("r")
    builder.close("r", "refusal", digest(builder.asked["r"][0]), "w")


@breaks("G2", "made.requests.v1-0-0", "closed this record as None")
def dead_letter_not_closed(builder: HistoryBuilder) -> None:
    builder.refuse(builder.put("requests", 0, b"", b"no JSON"), "undecodable")
    assert builder.records.pop().topic == "ledger"


@breaks("G2", "r", "retries-0-0 lists it")
def still_on_the_list(builder: HistoryBuilder) -> None:
    builder.ask("r")
    builder.fail("r")
    builder.work("r", 2)


@breaks("G10", "letter", "round 1 of its replay made the requests one, two")
def replayed_twice(builder: HistoryBuilder) -> None:
    account = f"w~{hashlib.sha256(b'letter').hexdigest()[:12]}"
    replay = {"dead_letter_id": "letter", "round": 1, "account": account, "by": "me"}
    for id_ in ("one", "two"):
        builder.ask(id_, replay={**replay, "edited": False})
        builder.work(id_)

"""What `answerbus audit verify` and `answerbus workflow` say about real topics, true and forged."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer, ConsumerRecord

from answerbus.account_id import replay_account
from answerbus.partition import partition_of
from answerbus.topics import ATTEMPTS, DEAD_LETTERS, LEDGER, REFUSALS, RESULTS, Topic
from services.commands.workflow import UNREAD
from tests.integration.bus import ANSWERED, DEP_BUMP, Bus, create_topics, request, until
from tests.integration.command_line import Ended, answerbus
from tests.integration.evidence_packs import is_whole, keys

pytestmark = pytest.mark.kafka

WORKFLOW = "order-1"
INVALID = {"kind": "answered", "json": {**DEP_BUMP, "manifest_path": "../etc", "rationale": "r"}}
RULES: list[dict[str, Any]] = [
    {"when": {"request_id": "r-retry", "attempt": 1}, "reply": INVALID},
    {"when": {"request_id": "r-crash", "attempt": 1}, "reply": {"kind": "hang"}},
    {"when": {"request_id": "r-invalid"}, "reply": INVALID},
    {"when": {"request_id": "r-refused"}, "reply": {"kind": "refused", "reason": "no, thanks"}},
    {"reply": ANSWERED},
]
REPLAY = {
    "dead_letter_id": "r-invalid.dead-letter",
    "round": 1,
    "account": replay_account(WORKFLOW, "r-invalid.dead-letter"),
    "by": "ops@acme",
    "edited": False,
}
REPLAYED = {
    "kind": "replayed",
    "dead_letter_id": REPLAY["dead_letter_id"],
    "request_id": "r-again",
    "round": 1,
    "by": "ops@acme",
    "reason": "again",
    "at": "2026-11-21T10:00:00.000Z",
}
REQUESTS = [
    request("r-retry", WORKFLOW, budget={"attempts": 9}),
    request("r-refused", WORKFLOW),
    request("r-invalid", WORKFLOW, policy={"on_invalid": "dead_letter"}),
    request("r-again", WORKFLOW, replay=REPLAY),
    request("r-crash", "order-2"),
    *[request(f"r-{n}", f"order-{n}") for n in range(10, 30)],
]
COPIED = (LEDGER, RESULTS, REFUSALS, DEAD_LETTERS)
Records = list[ConsumerRecord]


async def work(bus: Bus, requests: Sequence[Any]) -> None:
    """All is answered, after a crash if a request hangs, and nobody works any more."""
    config = bus.config(RULES)
    worker = bus.start_worker(config)
    await bus.publish(requests)
    async with AIOKafkaProducer(bootstrap_servers=bus.bootstrap) as operator:
        place = bus.topic(DEAD_LETTERS), partition_of(WORKFLOW, bus.partitions)
        await operator.send_and_wait(place[0], json.dumps(REPLAYED).encode(), partition=place[1])
    await until(lambda: len(bus.ended_calls()) >= len(requests), "all but one are called")
    hung = len(requests) == len(REQUESTS)
    await bus.terminals(len(requests) - hung)
    if hung:
        worker.kill()
        worker = bus.start_worker(config)
    assert len(await bus.terminals(len(requests))) == len(requests)
    assert worker.terminate() == 0
    await bus.settled()


async def test_an_anchor_goes_to_a_topic_that_is_there_and_makes_none(
    bus: Bus, tmp_path: Path
) -> None:
    private, _ = keys(tmp_path)
    command = ("audit", "anchor", "--key", private, "--out", str(tmp_path), "--topic")
    missing = await answerbus(bus.bootstrap, bus.prefix, *command, f"{bus.prefix}.anchors")
    assert missing.code == 3
    assert f"There is no topic {bus.prefix}.anchors" in missing.err
    again = await answerbus(bus.bootstrap, bus.prefix, *command, f"{bus.prefix}.anchors")
    assert again.code == 3

    done = await answerbus(bus.bootstrap, bus.prefix, *command, bus.topic(RESULTS))
    assert done.code == 0, done.err
    (signed,) = await bus.records(RESULTS)
    assert json.loads(signed.value.splitlines()[0])["kind"] == "anchor"


async def verified(bus: Bus, *options: str) -> tuple[int, dict[str, Any]]:
    ended = await answerbus(bus.bootstrap, bus.prefix, "audit", "verify", "--json", *options)
    assert ended.code in {0, 1}, ended.err
    return ended.code, json.loads(ended.out)


async def test_what_workers_wrote_is_whole_and_has_a_timeline(bus: Bus, tmp_path: Path) -> None:
    await work(bus, REQUESTS)
    attempts = await bus.everything(ATTEMPTS)
    code, reported = await verified(bus)

    assert (code, reported) == (
        0,
        {
            "whole": True,
            "attempts": len(attempts),
            "accounts": 23,
            "begun_in_the_middle": 0,
            "without_ledger": 0,
            "in_flight": 0,
            "breaks": [],
        },
    )
    nobody = await answerbus(bus.bootstrap, bus.prefix, "audit", "verify", "--workflow", "nobody")
    assert nobody.code == 0
    assert "No attempt of the workflow nobody is kept" in nobody.err
    assert {attempt["outcome"] for attempt in attempts} == {
        "result",
        "retry",
        "refusal",
        "dead_letter",
        "unknown",
    }
    human = await answerbus(bus.bootstrap, bus.prefix, "audit", "verify")
    assert (human.code, human.out) == (
        0,
        f"whole: {len(attempts)} attempts of 23 accounts\n",
    )
    assert (await verified(bus, "--workflow", WORKFLOW))[1]["attempts"] == 5
    await the_story_is_told(bus)
    evidence = await is_whole(bus, tmp_path, "--since", "1d")
    assert (evidence["attempts"], evidence["outcomes"]) == (len(attempts), len(REQUESTS) + 1)


@pytest.mark.long
async def test_a_replay_that_no_operator_made_is_found_out(bus: Bus) -> None:
    """Anyone who may publish requests can derive the account of a letter that never was."""
    dead_letter_id = "never-was.dead-letter"
    account = replay_account(WORKFLOW, dead_letter_id)
    forged = {**REPLAY, "dead_letter_id": dead_letter_id, "account": account}
    await work(bus, [request("r-again", WORKFLOW, replay=REPLAY), request("x", WORKFLOW)])
    assert (await verified(bus))[0] == 0

    worker = bus.start_worker(bus.config(RULES))
    await bus.publish([request("r-forged", WORKFLOW, replay=forged)])
    stolen = {**forged, "account": "order-2"}
    await bus.publish([request("r-stolen", WORKFLOW, replay=stolen)])
    terminals = {terminal["request_id"]: terminal for terminal in await bus.terminals(4)}
    refused = terminals["r-stolen"]
    assert (refused["kind"], refused["cause"]["kind"]) == ("dead_letter", "undecodable")
    assert refused["cause"]["problems"][0]["path"] == "/replay/account"
    assert worker.terminate() == 0
    await bus.settled()
    for options in ((), ("--workflow", WORKFLOW)):
        code, reported = await verified(bus, *options)
        (found,) = reported["breaks"]
        assert (code, found["kind"], found["account_id"]) == (1, "not_replayed", account)
        assert found["expected"] == f"a `replayed` event of {dead_letter_id} that names r-forged"


async def the_story_is_told(bus: Bus) -> None:
    ended = await answerbus(bus.bootstrap, bus.prefix, "workflow", WORKFLOW, "--json")
    body = json.loads(ended.out)

    assert ended.code == 0
    retried = [one for one in body if one["request_id"] == "r-retry"]
    assert [one["kind"] for one in retried] == [
        "request",
        "attempt",
        "retry_request",
        "attempt",
        "result",
        "retry_ended",
        "closed",
    ]
    assert retried[0]["text"] == "asked for plan_proposal.v1 on profile default"
    assert retried[1]["text"].startswith("attempt 1 by scripted ended in a retry after ")
    assert retried[3]["text"].startswith("attempt 2 by scripted ended in a result after ")
    assert {one["request_id"] for one in body} == {"r-retry", "r-refused", "r-invalid", "r-again"}
    human = await answerbus(bus.bootstrap, bus.prefix, "workflow", WORKFLOW)
    assert human.code == 0
    assert len(human.out.splitlines()) > len(body), "where the time went stands above"
    for one in body:
        assert one["request_id"] in human.out
    shown = await answerbus(bus.bootstrap, bus.prefix, "workflow", WORKFLOW, "--show-content")
    for hidden in ("Propose a change.", "lodash", "no, thanks"):
        assert hidden not in human.out + ended.out
        assert hidden in shown.out
    nothing = await answerbus(bus.bootstrap, bus.prefix, "workflow", "order-x")
    assert nothing == Ended(1, "", f"Nothing of the workflow order-x is kept. {UNREAD}\n")


def chain_of(records: Records) -> list[int]:
    """Where the attempts of the workflow stand."""
    return [
        at
        for at, record in enumerate(records)
        if json.loads(record.value)["account_id"] == WORKFLOW
    ]


def changed(records: Records) -> Sequence[tuple[ConsumerRecord, bytes]]:
    at = chain_of(records)[1]
    return [
        (one, one.value.replace(b'"counted":true', b'"counted":false') if n == at else one.value)
        for n, one in enumerate(records)
    ]


def dropped(records: Records) -> Sequence[tuple[ConsumerRecord, bytes]]:
    at = chain_of(records)[1]
    return [(one, one.value) for n, one in enumerate(records) if n != at]


def doubled(records: Records) -> Sequence[tuple[ConsumerRecord, bytes]]:
    at = chain_of(records)[1]
    return [(one, one.value) for one in [*records[: at + 1], *records[at:]]]


Forge = Callable[[Records], Sequence[tuple[ConsumerRecord, bytes]]]


async def test_a_forged_copy_of_the_attempts_is_found_out(bus: Bus, tmp_path: Path) -> None:
    await work(bus, [one for one in REQUESTS if one["request_id"] != "r-crash"])
    attempts = await bus.records(ATTEMPTS)
    position = attempts.index(attempts[chain_of(attempts)[1]])
    partition = partition_of(WORKFLOW, bus.partitions)
    offset = sum(attempt.partition == partition for attempt in attempts[:position])
    named = json.loads(attempts[position].value)["event_id"]
    following = json.loads(attempts[chain_of(attempts)[2]].value)["event_id"]
    cases: list[tuple[Forge, str, str, int]] = [
        (changed, "changed", named, offset),
        (dropped, "link", following, offset),
        (doubled, "twice", named, offset + 1),
    ]
    for forge, kind, event_id, at in cases:
        copy = Bus(bus.bootstrap, f"{bus.prefix}-{kind}", bus.partitions, tmp_path)
        await create_topics(copy)
        for topic in COPIED:
            records = await bus.records(topic)
            await put(copy, topic, [(record, record.value) for record in records])
        await put(copy, ATTEMPTS, forge(attempts))

        code, reported = await verified(copy)

        (found,) = reported["breaks"]
        assert (code, reported["whole"]) == (1, False)
        assert (found["kind"], found["account_id"], found["event_id"]) == (kind, WORKFLOW, event_id)
        place = found["topic"], found["partition"], found["offset"]
        assert place == (copy.topic(ATTEMPTS), partition, at)
    human = await answerbus(copy.bootstrap, copy.prefix, "audit", "verify")
    assert human.code == 1
    assert f"at {copy.topic(ATTEMPTS)}, partition {partition}, offset {at}\n" in human.out


async def put(bus: Bus, topic: Topic, records: Sequence[tuple[ConsumerRecord, bytes]]) -> None:
    async with AIOKafkaProducer(bootstrap_servers=bus.bootstrap) as producer:
        for record, value in records:
            await producer.send(
                bus.topic(topic),
                value,
                record.key,
                record.partition,
                record.timestamp,
                list(record.headers),
            )
        await producer.flush()

"""`answerbus spend`, `compare` and `shadow` on a real broker: what was spent, and asked again."""

import asyncio
import csv
import json
from datetime import date
from decimal import Decimal
from typing import Any

import pytest

from answerbus.client.bus import Bus as ClientBus
from answerbus.envelope import COMPARE_SOURCE
from answerbus.topics import ATTEMPTS, COMPARISONS, LEDGER, RESULTS
from services.console.tasks.comparison_reading import ComparisonReader
from services.operators.adapters.comparison_writer import claim_name, release_name
from services.operators.adapters.shadowing import asked_on
from services.operators.comparisons.listed import ComparisonList
from tests.integration.bus import ANSWERED, DEP_BUMP, Bus, request
from tests.integration.command_line import answerbus, interrupt, start

pytestmark = pytest.mark.kafka

REQUESTS = 8
USAGE = {"input_tokens": 100, "output_tokens": 20}
PRICE = "price = {input_usd = 1.0, output_usd = 10.0}\n"
LIMIT_S = 60.0


async def test_the_sums_are_those_of_the_outcomes_and_the_dearest_comes_first(bus: Bus) -> None:
    cut = {"when": {"request_id": "r-3", "attempt": 1}, "reply": {"kind": "timed_out"}}
    rules: list[dict[str, Any]] = [cut, {"reply": {**ANSWERED, "usage": USAGE}}]
    config = bus.config(rules, bus.scripted("priced") + PRICE)
    bus.start_worker(config)
    await bus.publish(
        [
            request(
                f"r-{n}",
                "order-1" if n > 1 else "order-0",
                profile="priced",
                budget={"attempts": 2 * REQUESTS},
                labels={"tenant": "acme" if n % 2 else "beta"},
            )
            for n in range(REQUESTS)
        ]
    )
    outcomes = await bus.terminals(REQUESTS, LIMIT_S)
    used = sum(body["usage"]["micro_usd"] for body in outcomes)
    attempts = [json.loads(record.value) for record in await bus.records(ATTEMPTS)]
    charged = sum(attempt["charged"]["micro_usd"] for attempt in attempts)
    ended = await answerbus(bus.bootstrap, bus.prefix, "spend", "--json", "--config", str(config))
    found = json.loads(ended.out)

    assert used == REQUESTS * (100 + 20 * 10) < charged
    assert (found["total"]["used_micro_usd"], found["total"]["charged_micro_usd"]) == (
        used,
        charged,
    )
    assert found["total"]["calls"] == REQUESTS + 1
    assert [line["name"] for line in found["workflows"]] == ["order-1", "order-0"]
    assert [line["name"] for line in found["contracts"]] == ["plan_proposal.v1"]
    tenants = {line["name"]: line["used_micro_usd"] for line in found["labels"]["tenant"]}
    assert tenants == {"acme": used // 2, "beta": used // 2}

    table = bus.folder / "spend.csv"
    grouped = await answerbus(
        *(bus.bootstrap, bus.prefix, "spend", "--by", "contract,profile,label.tenant"),
        *("--since", "1h", "--csv", str(table), "--json", "--config", str(config)),
    )
    found = json.loads(grouped.out)
    rows = list(csv.DictReader(table.read_text().splitlines()))

    assert found["total"]["charged_micro_usd"] == charged
    assert [(one["label.tenant"], one["calls"], one["aborted"]) for one in found["groups"]] == [
        ("acme", 5, 1), ("beta", 4, 0),
    ]  # fmt: skip
    assert {(row["contract"], row["profile"]) for row in rows} == {("plan_proposal.v1", "priced")}
    assert sum(Decimal(row["charged_usd"]) for row in rows) * 1_000_000 == charged
    assert sum(Decimal(row["used_usd"]) for row in rows) * 1_000_000 == used


async def test_a_profile_is_compared_on_what_was_asked_before_and_writes_no_outcome(
    bus: Bus,
) -> None:
    other = bus.folder / "other.json"
    odd = {**DEP_BUMP, "target_version": "4.17.22", "rationale": "it is newer"}
    rules = [
        {"when": {"request_id": "r-5"}, "reply": {"kind": "answered", "json": odd, "usage": USAGE}},
        {"reply": {**ANSWERED, "usage": USAGE}},
    ]
    other.write_text(json.dumps({"rules": rules}))
    judging = bus.folder / "judge.json"
    verdict = {"reason": "the older one is safer", "verdict": "first"}
    says = {"kind": "answered", "json": verdict, "usage": USAGE}
    judging.write_text(json.dumps({"rules": [{"reply": says}]}))
    profiles = bus.scripted("priced") + PRICE + bus.scripted("new", script=str(other)) + PRICE
    profiles += bus.scripted("judge", script=str(judging)) + PRICE
    config = bus.config([{"reply": {**ANSWERED, "usage": USAGE}}], profiles + bus.scripted("free"))
    bus.start_worker(config)
    arguments = ("compare", "--budget-usd", "1", "--json", "--config", str(config))
    nothing = await answerbus(bus.bootstrap, bus.prefix, *arguments, "--profile", "new")
    asked = [request(f"r-{n}", "order-1", profile="priced") for n in range(REQUESTS)]
    budget = {"attempts": REQUESTS}
    await bus.publish([{**one, "budget": budget} for one in asked])
    before = await bus.terminals(REQUESTS, LIMIT_S)
    free = await answerbus(bus.bootstrap, bus.prefix, *arguments, "--profile", "free")
    unknown = await answerbus(bus.bootstrap, bus.prefix, *arguments, "--profile", "nobody")
    bars = ("--bar", "valid>=1", "--bar", "equal>=0.9")
    chosen = ("--profile", "new", "--judge", "judge")
    ended = await answerbus(bus.bootstrap, bus.prefix, *arguments, *chosen, *bars)
    found = json.loads(ended.out)
    again = ("compare", "--show", found["comparison"], "--json", "--config", str(config))
    shown = await answerbus(bus.bootstrap, bus.prefix, *again, *bars)

    assert (shown.code, json.loads(shown.out)) == (1, found)
    assert (nothing.code, free.code, unknown.code) == (3, 3, 3)
    assert "No outcome of this time" in nothing.err
    assert "'free' has no price" in free.err
    assert "no profile 'nobody'" in unknown.err
    assert ended.code == 1, ended.err
    assert "The bar equal>=0.9 is missed." in ended.err
    assert (found["asked"], found["equal"]["hits"], found["again"]["valid"]["hits"]) == (8, 7, 8)
    assert found["fields"]["/target_version"]["hits"] == 7
    assert found["bars"] == {"valid>=1": True, "equal>=0.9": False}
    assert found["charged_micro_usd"] == (REQUESTS + 1) * (100 + 20 * 10)
    assert (found["judged"]["worse"]["hits"], found["judged"]["equal"]["hits"]) == (1, 7)
    assert found["recorded"]["micro_usd"]["mean"] == found["again"]["micro_usd"]["mean"] == 300

    written = await bus.everything(COMPARISONS)
    assert [one["request_id"] for one in written if not one["equal"]] == ["r-5"]
    assert {one["comparison"] for one in written} == {found["comparison"]}
    listed = ComparisonList()
    await ComparisonReader(ClientBus(bus.bootstrap, bus.prefix, {})).read(listed.take)
    assert [(row.name, row.folded.asked) for row in listed.newest()] == [(found["comparison"], 8)]
    ours = ClientBus(bus.bootstrap, bus.prefix, {})
    claimed = await asyncio.gather(*(claim_name(ours, "nightly") for _ in range(4)))
    late = await answerbus(bus.bootstrap, bus.prefix, *arguments, *chosen, "--name", "nightly")
    (held,) = filter(None, claimed)
    assert (late.code, "Another comparison 'nightly' has begun" in late.err) == (3, True)
    await release_name(ours, "nightly", held)
    cut = (*arguments, "--profile", "new", "--name", "nightly", "--budget-usd", "0.000001")
    early = [await answerbus(bus.bootstrap, bus.prefix, *cut) for _ in range(2)]
    assert [(one.code, "The budget is over" in one.err) for one in early] == [(1, True)] * 2
    assert {one["comparison"] for one in await bus.everything(COMPARISONS)} == {found["comparison"]}
    assert len(await bus.records(ATTEMPTS)) == REQUESTS
    assert sorted(one["event_id"] for one in await bus.everything(RESULTS)) == sorted(
        one["event_id"] for one in before
    )


async def test_a_shadow_is_asked_live_and_charges_and_writes_nothing_of_the_original(
    bus: Bus,
) -> None:
    other = bus.folder / "other.json"
    odd = {**DEP_BUMP, "target_version": "4.17.22"}
    rules = [
        {"when": {"request_id": "r-5"}, "reply": {"kind": "answered", "json": odd, "usage": USAGE}},
        {"reply": {**ANSWERED, "usage": USAGE}},
    ]
    other.write_text(json.dumps({"rules": rules}))
    shadow = 'shadow = {profile = "new", share = 1, usd_per_day = 5}\n'
    profiles = bus.scripted("priced") + PRICE + shadow
    profiles += bus.scripted("new", script=str(other)) + PRICE
    config = bus.config([{"reply": {**ANSWERED, "usage": USAGE}}], profiles)
    bus.start_worker(config)
    shadowing = await start(bus.bootstrap, bus.prefix, "shadow", "--config", str(config))
    async with asyncio.timeout(LIMIT_S):
        while b"following" not in (line := await shadowing.stderr.readline()):
            assert line, "it ended"
    asked = [request(f"r-{n}", "order-1", profile="priced") for n in range(REQUESTS)]
    await bus.publish([{**one, "budget": {"attempts": REQUESTS}} for one in asked])
    outcomes = await bus.terminals(REQUESTS, LIMIT_S)
    async with asyncio.timeout(LIMIT_S):
        while len(written := await bus.everything(COMPARISONS)) < REQUESTS:
            pass
    ended = await interrupt(shadowing)
    paid = REQUESTS * (100 + 20 * 10)
    days = {date.fromisoformat(one["comparison"].rpartition(".")[2]) for one in written}
    ours = ClientBus(bus.bootstrap, bus.prefix, {})
    known = [(await asked_on(ours, day, ["priced"]))["priced"] for day in days]

    assert ended.code == 0, ended.err
    assert sorted(one["request_id"] for one in written if not one["equal"]) == ["r-5"]
    assert {one["recorded"]["usage"]["micro_usd"] for one in written} == {paid // REQUESTS}
    assert sum(one["charged_micro_usd"] for one in written) == paid
    assert (sum(one.calls for one in known), sum(one.micro_usd for one in known)) == (
        REQUESTS,
        paid,
    )
    assert max(one["account"]["spent"]["micro_usd"] for one in outcomes) == paid
    for topic in (LEDGER, ATTEMPTS, RESULTS):
        records = await bus.records(topic)
        assert topic is LEDGER or len(records) == REQUESTS
        sources = {value for one in records for name, value in one.headers if name == "ce_source"}
        assert COMPARE_SOURCE.encode() not in sources

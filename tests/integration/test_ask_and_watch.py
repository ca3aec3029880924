"""`answerbus ask` and `answerbus watch` as processes on a real Kafka."""

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer

from answerbus.budget import Budget
from answerbus.event import Event
from answerbus.partition import partition_of
from answerbus.request import Context, ContractRef, Fact, Message, Request
from answerbus.topics import DEAD_LETTERS, REQUESTS, RESULTS, RETRIES
from tests.integration.answering import answering, dead_letter, refusal, result, unvalidated, write
from tests.integration.bus import DEP_BUMP, Bus
from tests.integration.command_line import Ended, answerbus, ended, interrupt, start

pytestmark = pytest.mark.kafka

HOSTILE = "\x1b[31mred\x1b[0m"


async def run(bus: Bus, *arguments: str, stdin: bytes = b"") -> Ended:
    return await answerbus(bus.bootstrap, bus.prefix, *arguments, stdin=stdin)


async def test_an_answer_goes_to_stdout_and_the_words_about_it_to_stderr(bus: Bus) -> None:
    asked: list[Request] = []

    def answer(request: Request) -> Sequence[Event]:
        asked.append(request)
        return [result(request, DEP_BUMP)]

    manifest = bus.folder / "package.json"
    manifest.write_text('{"lodash":"4.17.20"}')
    async with answering(bus, answer):
        done = await run(
            bus,
            *("ask", "Fix the build.", "--contract", "plan_proposal", "--workflow", "order-1"),
            *("--fact", f"manifest=@{manifest}", "--fact", "n=1", "--fact", "who=me and you"),
            *("--message", "it broke", "--attempts", "2", "--ttl", "60", "--label", "tenant=acme"),
        )

    assert done.code == 0, done.err
    assert json.loads(done.out) == DEP_BUMP
    assert "plan_proposal.v1, attempt 1" in done.err
    assert asked == [
        Request(
            request_id=asked[0].request_id,
            workflow_id="order-1",
            answer_schema=ContractRef(name="plan_proposal", version=1),
            context=Context(
                instructions="Fix the build.",
                messages=(Message(role="user", content="it broke"),),
                facts=(
                    Fact(name="manifest", value={"lodash": "4.17.20"}),
                    Fact(name="n", value=1),
                    Fact(name="who", value="me and you"),
                ),
            ),
            budget=Budget(attempts=2),
            ttl_s=60,
            labels={"tenant": "acme"},
        )
    ]


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("unvalidated", "not valid"),
        ("refusal", "Declined by the provider"),
        ("dead_letter", "The workers have no profile of that name."),
    ],
)
async def test_any_other_outcome_is_a_failure_with_words(bus: Bus, kind: str, text: str) -> None:
    def answer(request: Request) -> Sequence[Event]:
        match kind:
            case "unvalidated":
                return [unvalidated(request, HOSTILE)]
            case "refusal":
                return [refusal(request, HOSTILE)]
            case _:
                return [dead_letter(request)]

    async with answering(bus, answer):
        done = await run(bus, "ask", "Say hello.")
        as_json = await run(bus, "ask", "Say hello.", "--json")

    assert done.code == 1
    assert done.out == ""
    assert text in done.err
    assert "\x1b[31m" not in done.err
    assert as_json.code == 1
    assert json.loads(as_json.out)["kind"].startswith(kind)


async def test_a_request_can_come_from_stdin_and_an_inline_schema_from_a_file(bus: Bus) -> None:
    schema = bus.folder / "route.json"
    schema.write_text('{"type":"object"}')
    body = {
        "workflow_id": "w",
        "answer_schema": {"kind": "text"},
        "context": {"instructions": "Hi"},
    }

    async with answering(bus, lambda request: [result(request, request.request_id)]):
        from_stdin = await run(bus, "ask", "--request", "-", stdin=json.dumps(body).encode())
        inline = await run(bus, "ask", "Route it.", "--schema", str(schema), "--json")

    assert from_stdin.code == 0, from_stdin.err
    assert len(from_stdin.out.strip()) == 36
    assert json.loads(inline.out)["schema"]["name"] == "route"


async def test_no_outcome_in_time_is_a_failure_that_says_how_to_go_on(bus: Bus) -> None:
    done = await run(bus, "ask", "Hi", "--workflow", "w", "--timeout", "0.2")

    assert done.code == 1
    assert done.out == ""
    assert "`answerbus workflow w` shows how far it is" in done.err


async def test_publishing_alone_says_where(bus: Bus) -> None:
    done = await run(bus, "ask", "Hi", "--workflow", "w", "--no-wait", "--json")

    published = json.loads(done.out)
    assert done.code == 0
    assert published["partition"] == partition_of("w", bus.partitions)
    assert published["offset"] == 0


async def test_ctrl_c_is_a_clean_end(bus: Bus) -> None:
    process = await start(bus.bootstrap, bus.prefix, "watch", "--from-start", "--json")
    async with AIOKafkaProducer(bootstrap_servers=bus.bootstrap) as producer:
        await write(bus, producer, 0, refusal(request("r"), "no"))
    assert process.stdout is not None
    async with asyncio.timeout(30):
        await process.stdout.readline()

    done = await interrupt(process)

    assert done == Ended(130, "", "")


def request(request_id: str, workflow_id: str = "w") -> Request:
    return Request.model_validate_json(
        json.dumps(
            {
                "kind": "request",
                "request_id": request_id,
                "workflow_id": workflow_id,
                "answer_schema": {"kind": "text"},
                "context": {"instructions": "Hi"},
            }
        )
    )


async def test_watching_shows_all_there_is_also_what_is_no_event(bus: Bus) -> None:
    async with AIOKafkaProducer(bootstrap_servers=bus.bootstrap) as producer:
        await write(bus, producer, 0, result(request("r-1"), "hello"))
        await write(bus, producer, 1, refusal(request("r-2", "other"), HOSTILE))
        await write(bus, producer, 2, dead_letter(request("r-3")))
        await producer.send_and_wait(bus.topic(RESULTS), b"\xff", partition=3)
        await producer.send_and_wait(bus.topic(RETRIES), None, b"r-4", partition=3)
        await producer.send_and_wait(bus.topic(DEAD_LETTERS), None, b"\xff", partition=3)

    as_json = await run(bus, "watch", "--from-start", "--json", "--limit", "6")
    lines = await run(bus, "watch", "--from-start", "--limit", "6")
    letters = await run(
        bus, *("watch", "--from-start", "--json", "--limit", "1", "--kind", "dead_letter")
    )

    found: list[dict[str, Any]] = [json.loads(line) for line in as_json.out.splitlines()]
    assert sorted(entry["kind"] for entry in found) == [
        "dead_letter",
        "refusal",
        "result",
        "retry_ended",
        "undecodable",
        "undecodable",
    ]
    assert lines.code == 0
    assert len(lines.out.splitlines()) == 6
    assert "\x1b" not in lines.out
    assert json.loads(letters.out)["event"]["request_id"] == "r-3"


async def test_watching_one_workflow_begins_now(bus: Bus) -> None:
    """What was there before is not shown; others neither."""
    place = partition_of("mine", bus.partitions)
    async with AIOKafkaProducer(bootstrap_servers=bus.bootstrap) as producer:
        await write(bus, producer, place, result(request("old", "mine"), "old"))
        process = await start(
            bus.bootstrap, bus.prefix, "watch", "--workflow", "mine", "--json", "--limit", "1"
        )
        while process.returncode is None:
            # Nobody is told when a watcher is in place: write until it has seen one.
            await write(bus, producer, place, refusal(request("others", "other"), "no"))
            await write(bus, producer, place, result(request("new", "mine"), "new"))
            try:
                async with asyncio.timeout(0.2):
                    await process.wait()
            except TimeoutError:
                continue
        done = await ended(process)

    assert json.loads(done.out)["event"]["request_id"] == "new"
    assert REQUESTS.name not in done.out

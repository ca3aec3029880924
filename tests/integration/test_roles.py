"""Each role works with the rows that are printed for it, and each row taken away is named."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.admin import NewTopic

from answerbus.client import Client, NoAnswerYet
from answerbus.client.errors import BusUnavailable
from answerbus.control import Approval, ApprovalRequested
from answerbus.dead_letter import Dismissed, Replayed
from answerbus.partition import partition_of
from answerbus.request import Context, Request, TextRef
from answerbus.tools.echo import echo
from answerbus.tools.server import ToolServer
from answerbus.topics import (
    APPROVALS,
    COMPARISONS,
    RESULTS,
    RUN_TOPICS,
    RUNS,
    TOPICS,
    tool_calls,
    toolset_cards,
)
from services.command_line import bus_of
from services.commands.doctor.examine import examined_as
from services.commands.doctor.findings.facts import Finding
from services.commands.private_records import hidden_runs
from services.commands.repartitioning.move import move
from services.console.tasks.polling import Poller
from services.kafka.held_rights import resource_names
from services.kafka.planning.plan import needed, plan
from services.kafka.planning.rights import ROLES, Right, Role, rights_of
from services.kafka.topics import topics_on
from services.operators.adapters.comparison_writer import writing_comparisons
from services.operators.adapters.reader import reading
from services.operators.adapters.shadowing import asked_on, shadow
from services.operators.adapters.verify import verify
from services.operators.adapters.writer import DeadLetterChange, writing
from services.operators.comparisons.live_draw import LiveDraw
from services.operators.dead_letters.prepare_replay import PreparedReplay
from services.settings.settings import KafkaSettings, SetUpError, load
from services.tools.serving import serve_checked
from services.worker.adapters.kafka.rights_check import check_rights
from tests.integration.bus import ANSWERED, Bus, create_topics, request, until
from tests.integration.granting import Granting
from tests.integration.kafka_admin import kafka_admin
from tests.integration.rights import PASSWORD, PASSWORD_ENV
from tests.integration.secured import Secured
from tests.unit.operators.comparisons.test_comparisons import compared
from tests.unit.operators.runs.events import approval_asked

pytestmark = pytest.mark.kafka

LIMIT_S = 10.0
GROUP = "billing"
PARTITIONS = 2
NOW = datetime(2026, 1, 1, tzinfo=UTC)
ASKED = Request(
    request_id="r-1",
    workflow_id="w-1",
    answer_schema=TextRef(),
    context=Context(instructions="Name an even number."),
)


class Setting:
    """A bus whose topics are there, and the settings of a user without any right to them."""

    def __init__(self, bus: Bus, secured: Secured, config: Path, kafka: KafkaSettings) -> None:
        self.bus, self.secured, self.config, self.kafka = bus, secured, config, kafka
        self.ours = bus_of(kafka)
        self.options = self.ours.options

    def client(self) -> Client:
        return Client(self.kafka.bootstrap_servers, topic_prefix=self.bus.prefix, **self.options)


@pytest.fixture
async def setting(
    secured: Secured,
    make_prefix: Callable[[], str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> AsyncIterator[Setting]:
    monkeypatch.setenv(PASSWORD_ENV, PASSWORD)
    prefix = make_prefix()
    table = secured.settings("SASL_PLAINTEXT") | {"group_id": f"{prefix}.workers"}
    bus = Bus(secured.plain, prefix, PARTITIONS, tmp_path, kafka=table)
    config = bus.config([{"reply": ANSWERED}])
    yield Setting(bus, secured, config, load(config, {}).kafka)
    bus.stop_workers()


async def publishes(it: Setting) -> None:
    async with it.client() as client:
        await client.publish(ASKED)


async def asks_and_subscribes(it: Setting) -> None:
    async with it.client() as client:
        with pytest.raises(NoAnswerYet):
            await client.ask("Name an even number.", workflow_id="w-1", timeout_s=0.1)
        subscription = client.subscribe(response_model=str, group_id=GROUP, dead_letters=True)
        async with asyncio.timeout(LIMIT_S), subscription as outcomes:
            assert await anext(outcomes)  # what `prepared` has put there


async def works(it: Setting) -> None:
    """What a worker looks at before it begins; a whole one is in the test of all rows."""
    await check_rights(it.kafka, PARTITIONS, needs_runs=False)


async def operates(it: Setting) -> None:
    async with reading(it.ours, TOPICS) as reader:
        assert [batch async for batch in reader.to_end()]
    dismissed = Dismissed(dead_letter_id="x", by="me", reason="y", at=NOW)
    replayed = Replayed(dead_letter_id="x", request_id="r-1", round=1, by="me", reason="y", at=NOW)
    async with writing(it.ours) as writer:
        await writer.commit(
            [DeadLetterChange(dismissed, 0), DeadLetterChange(PreparedReplay(ASKED, replayed), 0)]
        )


async def shows(it: Setting) -> None:
    async with reading(it.ours, TOPICS) as reader:
        assert [batch async for batch in reader.to_end()]
    poller = Poller(it.ours, it.kafka.worker_group, ())
    polling = asyncio.create_task(poller.run())
    try:
        found = poller.results
        await until(lambda: found.lag is not None or found.error is not None, "it was asked")
        if found.error:
            raise BusUnavailable(found.error)
    finally:
        polling.cancel()


async def audits(it: Setting) -> None:
    await verify(it.ours, None, lambda _read, _total: None, timedelta(days=7))


async def shadows(it: Setting) -> None:
    """It has read what was asked today, and follows the topics."""
    stop = asyncio.Event()
    stop.set()
    await asked_on(it.ours, NOW.date(), ["default"])
    await shadow(it.ours, {}, LiveDraw({}, lambda _: None), stop)
    async with writing_comparisons(it.ours) as write:
        await write(compared())


async def serves_tools(it: Setting) -> None:
    """What `answerbus tools serve` does, until it has read what `prepared` has put there."""
    ready: list[ToolServer] = []
    serving = asyncio.create_task(serve_checked(it.kafka, echo, on_ready=ready.append))
    try:
        await until(
            lambda: serving.done() or any(server.counts for server in ready), "a call is read"
        )
    finally:
        for server in ready:
            server.stop()
        await serving


async def applies(it: Setting) -> None:
    """Nothing is there at first: created, corrected, and given more partitions."""
    wanted = needed(["echo.say"], has_agents=True)
    async with topics_on(it.ours, wanted) as topics:
        for _ in range(2):
            steps = plan(await topics.look(), PARTITIONS, topics=wanted)
            assert isinstance(steps, tuple)
            await topics.carry_out(steps, partitions=PARTITIONS, replication_factor=-1)
        await topics.grow([RESULTS], PARTITIONS + 1)


ACTS: Mapping[Role, Callable[[Setting], Awaitable[None]]] = {
    "publisher": publishes,
    "app": asks_and_subscribes,
    "worker": works,
    "operator": operates,
    "console": shows,
    "auditor": audits,
    "shadow": shadows,
    "tools": serves_tools,
    "admin": applies,
}

# What these do fails at once where a right is missing, with the name of what it is to.
REFUSED_BY_NAME: tuple[Role, ...] = (
    *("publisher", "app", "worker", "operator", "console", "auditor", "shadow", "tools"),
)


async def prepared(it: Setting, role: Role) -> None:
    """All topics, with a record in each that is read; an admin makes them itself."""
    if role == "admin":
        return
    await create_topics(it.bus)
    calls = it.bus.topic(tool_calls("echo"))
    names = [calls, *map(it.bus.topic, (*RUN_TOPICS, COMPARISONS, toolset_cards("echo")))]
    async with kafka_admin(it.bus.bootstrap) as admin:
        await admin.create_topics([NewTopic(name, 1, 1) for name in names])
    async with AIOKafkaProducer(bootstrap_servers=it.bus.bootstrap) as producer:
        for name in (*map(it.bus.topic, TOPICS), calls):
            await producer.send_and_wait(name, b"no event", b"no key of ours")


async def said(it: Setting, role: Role) -> list[Finding]:
    return [found async for found in examined_as(role, GROUP, it.config)]


async def expected(it: Setting, role: Role, what: Mapping[Right, str]) -> None:
    """Wait until the doctor finds no more and no less: rights are in force a moment later."""
    wanted = {
        f"no right to {right}, which the role {role} {verb} ({right.why}): grant it, "
        f"`answerbus topics acls --role {role}` prints all": "wrong" if right.needed else "warning"
        for right, verb in what.items()
    }
    deadline, found = time.monotonic() + LIMIT_S, dict[str, str]()
    while True:
        found = {one.said: one.verdict for one in await said(it, role) if one.verdict != "ok"}
        if found == wanted:
            return
        assert time.monotonic() < deadline, (found, wanted)


@pytest.mark.parametrize("role", ROLES)
async def test_a_role_works_with_its_rows_and_each_one_taken_away_is_named(
    setting: Setting, role: Role
) -> None:
    rows = rights_of(role, resource_names(setting.kafka, GROUP))
    granting = Granting(setting.secured, role)
    await prepared(setting, role)
    granting.grant(rows)
    try:
        await until_all_held(setting, role)
        await ACTS[role](setting)
        for row in rows:
            granting.take_back(row)
            await expected(setting, role, {row: "needs" if row.needed else "may have"})
            if row.needed and role in REFUSED_BY_NAME:
                assert row.name in await refusal(ACTS[role](setting)), row
            granting.grant([row])
        await expected(setting, role, {})
    finally:
        granting.clear(rows)


async def test_lanes_that_cannot_see_runs_say_which_right_is_missing(setting: Setting) -> None:
    names = resource_names(setting.kafka, GROUP)
    runs = setting.bus.topic(RUNS)
    (of_runs,) = (row for row in rights_of("operator", names) if row.name == runs)
    granting = Granting(setting.secured, "operator")
    await prepared(setting, "operator")

    assert str(of_runs) in (await hidden_runs(setting.ours) or "")
    granting.grant([of_runs])
    try:
        async with asyncio.timeout(LIMIT_S):
            while await hidden_runs(setting.ours):
                await asyncio.sleep(0.1)
    finally:
        granting.clear([of_runs])


async def test_a_move_that_cannot_see_runs_is_refused(setting: Setting) -> None:
    """Without Describe on them, no run would be known to be open, and all would stay behind."""
    names = resource_names(setting.kafka, GROUP)
    worker, admin = (rights_of(role, names) for role in ("worker", "admin"))
    of_runs = {setting.bus.topic(topic) for topic in RUN_TOPICS}
    group = setting.kafka.worker_group
    granting = Granting(setting.secured, "worker")
    for topics in (TOPICS, RUN_TOPICS):
        await create_topics(setting.bus, topics=topics)
    all_rows = {str(row): row for row in (*worker, *admin)}
    rows = [row for row in all_rows.values() if row.name not in of_runs]
    granting.grant(rows)
    try:
        async with asyncio.timeout(LIMIT_S):
            while True:
                with suppress(BusUnavailable):  # until the rights are in force
                    ours, look = setting.ours, lambda: NOW
                    found = await move(ours, group, 3, dry_run=True, now=look, say=lambda _: None)
                    break
    finally:
        granting.clear(rows)

    (obstacle,) = found.obstacles
    assert all(name in obstacle for name in of_runs)


async def refusal(act: Awaitable[object]) -> str:
    try:
        await act
    except (BusUnavailable, SetUpError) as error:
        return str(error)
    return "it was done all the same"


async def until_all_held(it: Setting, role: Role) -> None:
    """For an admin as far as can be told: it makes the topics."""
    found: list[Finding] = []
    async with asyncio.timeout(LIMIT_S):
        while not found or any("no right" in one.said for one in found):
            found = await said(it, role)


async def test_a_worker_works_with_its_rows_alone(setting: Setting) -> None:
    it = setting
    rows = [row for row in rights_of("worker", resource_names(it.kafka, "")) if row.needed]
    granting = Granting(it.secured, "worker")
    await create_topics(it.bus)
    granting.grant(rows)
    try:
        worker = await asyncio.to_thread(it.bus.start_worker, it.config)
        await it.bus.publish([request("r-1", "order-1")])
        (terminal,) = await it.bus.terminals(1, LIMIT_S)
    finally:
        granting.clear(rows)

    assert terminal["request_id"] == "r-1"
    assert "may do without: " in worker.log_file.read_text()


async def test_an_app_cancels_and_cannot_approve(setting: Setting) -> None:
    """Who asks must not be who approves: the broker itself refuses it."""
    it = setting
    names = resource_names(it.kafka, GROUP)
    await prepared(it, "app")
    numbers = range(100)  # the topics of runs have one partition here
    workflow = next(f"w-{n}" for n in numbers if partition_of(f"w-{n}", PARTITIONS) == 0)
    asked = approval_asked("r-1.call.1.0", workflow_id=workflow)
    assert isinstance(asked, ApprovalRequested)
    roles: tuple[tuple[Role, bool], ...] = (("app", False), ("operator", True))
    for role, may_approve in roles:
        rows, granting = rights_of(role, names), Granting(it.secured, role)
        granting.grant(rows)
        try:
            await until_all_held(it, role)
            async with it.client() as client:
                await client.cancel("r-1", workflow, by="me", reason="enough")
                if may_approve:
                    published = await client.approve(asked, by="me", reason="seen")
                    assert isinstance(published.control, Approval)
                    assert published.control.by.startswith("kafka:")
                    assert published.control.said_by == "me"
                else:
                    message = await refusal(client.approve(asked, by="me", reason="mine"))
                    assert it.bus.topic(APPROVALS) in message
        finally:
            granting.clear(rows)

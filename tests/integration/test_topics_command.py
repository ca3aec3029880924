"""`answerbus topics apply` on a real Kafka: idempotent, mends settings, never partitions."""

import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from aiokafka.admin import NewTopic
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType

from answerbus.topics import ATTEMPTS, COMPARISONS, REQUESTS, RESULTS, RUN_TOPICS, RUNS, TOPICS
from services.command_line import bus_of
from services.commands.asked_profiles import with_topic
from services.settings.settings import KafkaSettings
from tests.integration.command_line import answerbus
from tests.integration.kafka_admin import kafka_admin

pytestmark = pytest.mark.kafka


async def applied(bootstrap: str, prefix: str, *options: str, **settings: str) -> list[Any]:
    command = ("topics", "apply", "--json", *options)
    done = await answerbus(bootstrap, prefix, *command, stdin=b"", **settings)
    assert done.code == 0, done.err
    steps = json.loads(done.out)
    names = [step["topic"] for step in steps]
    assert names[: len(TOPICS)] == [topic.full_name(prefix) for topic in TOPICS]
    return [step["action"] for step in steps]


async def there(bootstrap: str, prefix: str) -> Mapping[str, tuple[int, Mapping[str, str]]]:
    """Partitions and own settings of the topics with a prefix."""
    async with kafka_admin(bootstrap) as admin:
        counts = {
            topic["topic"]: len(topic["partitions"])
            for topic in await admin.describe_topics()
            if topic["topic"].startswith(prefix)
        }
        resources = [ConfigResource(ConfigResourceType.TOPIC, name) for name in counts]
        answers = await admin.describe_configs(resources) if resources else []
    own = {
        name: {entry[0]: entry[1] for entry in entries if entry[3] == 1}
        for answer in answers
        for _code, _text, _type, name, entries in answer.resources
    }
    return {name: (count, own[name]) for name, count in counts.items()}


async def create(bootstrap: str, *topics: NewTopic) -> None:
    async with kafka_admin(bootstrap) as admin:
        await admin.create_topics(list(topics))


async def test_topics_are_created_as_the_table_says_and_then_left_alone(
    kafka_bootstrap: str, make_prefix: Callable[[], str]
) -> None:
    prefix = make_prefix()

    dry = await applied(kafka_bootstrap, prefix, "--dry-run", partitions="3")
    before = await there(kafka_bootstrap, prefix)
    first = await applied(kafka_bootstrap, prefix, partitions="3")
    after = await there(kafka_bootstrap, prefix)
    second = await applied(kafka_bootstrap, prefix, partitions="3")
    tools = await applied(
        kafka_bootstrap, prefix, "--dry-run", "--toolset", "orders", partitions="3"
    )

    assert tools == ["ok"] * 7 + ["create"] * len([*RUN_TOPICS, "tools.orders", "toolsets.orders"])
    assert dry == first == ["create"] * 7
    assert before == {}
    assert after == {topic.full_name(prefix): (3, topic.settings()) for topic in TOPICS}
    assert second == ["ok"] * 7
    assert await there(kafka_bootstrap, prefix) == after


async def test_topics_of_runs_of_an_earlier_version_are_completed_without_agents(
    kafka_bootstrap: str, make_prefix: Callable[[], str]
) -> None:
    prefix = make_prefix()
    runs = dict(RUNS.settings()) | {"segment.bytes": "1073741824"}
    await applied(kafka_bootstrap, prefix, partitions="2")
    await create(kafka_bootstrap, NewTopic(RUNS.full_name(prefix), 2, 1, topic_configs=runs))

    actions = await applied(kafka_bootstrap, prefix, partitions="2")
    found = await there(kafka_bootstrap, prefix)

    of_runs = ["change" if topic is RUNS else "create" for topic in RUN_TOPICS]
    assert actions == ["ok"] * len(TOPICS) + of_runs
    everything = (*TOPICS, *RUN_TOPICS)
    assert found == {topic.full_name(prefix): (2, topic.settings()) for topic in everything}


async def test_the_topic_of_comparisons_is_created_alone(
    kafka_bootstrap: str, make_prefix: Callable[[], str]
) -> None:
    """Operators may create no other, and their settings may lack the number of partitions."""
    settings = KafkaSettings(bootstrap_servers=kafka_bootstrap, topic_prefix=make_prefix())
    runs = RUNS.full_name(settings.topic_prefix)
    await create(kafka_bootstrap, NewTopic(runs, settings.partitions + 1, 1))

    await with_topic(bus_of(settings), settings)

    comparisons = COMPARISONS.full_name(settings.topic_prefix)
    assert await there(kafka_bootstrap, settings.topic_prefix) == {
        runs: (settings.partitions + 1, {}),
        comparisons: (1, COMPARISONS.settings()),
    }


async def test_settings_that_differ_are_corrected_and_those_of_others_kept(
    kafka_bootstrap: str, make_prefix: Callable[[], str]
) -> None:
    prefix = make_prefix()
    theirs = {"cleanup.policy": "compact", "retention.ms": "1000", "segment.ms": "600000"}
    await create(
        kafka_bootstrap,
        NewTopic(RESULTS.full_name(prefix), 2, 1, topic_configs=theirs),
        NewTopic(ATTEMPTS.full_name(prefix), 2, 1, topic_configs=dict(ATTEMPTS.settings())),
    )

    dry = await answerbus(kafka_bootstrap, prefix, "topics", "apply", "--dry-run", partitions="2")
    actions = await applied(kafka_bootstrap, prefix, partitions="2")
    found = await there(kafka_bootstrap, prefix)

    assert "change cleanup.policy compact -> delete, retention.ms 1000 -> 604800000" in dry.out
    assert actions == ["create", "change", "create", "create", "create", "ok", "create"]
    assert found[RESULTS.full_name(prefix)] == (2, {**RESULTS.settings(), "segment.ms": "600000"})


async def test_partitions_are_never_changed(
    kafka_bootstrap: str, make_prefix: Callable[[], str]
) -> None:
    prefix = make_prefix()
    await create(kafka_bootstrap, NewTopic(REQUESTS.full_name(prefix), 2, 1))
    before = await there(kafka_bootstrap, prefix)

    done = await answerbus(kafka_bootstrap, prefix, "topics", "apply", partitions="3")

    assert done.code == 3
    assert "have 2 partitions and `kafka.partitions` is 3" in done.err
    assert done.out == ""
    assert await there(kafka_bootstrap, prefix) == before


async def test_partitions_that_were_added_are_reported_and_do_no_harm(
    kafka_bootstrap: str, make_prefix: Callable[[], str]
) -> None:
    prefix = make_prefix()
    await create(
        kafka_bootstrap,
        NewTopic(REQUESTS.full_name(prefix), 5, 1, topic_configs=dict(REQUESTS.settings())),
        NewTopic(RESULTS.full_name(prefix), 2, 1, topic_configs=dict(RESULTS.settings())),
    )

    done = await answerbus(kafka_bootstrap, prefix, "topics", "apply", partitions="2")

    assert done.code == 0, done.err
    assert "Some topics have more partitions (requests 5) than the 2 of this deployment" in done.err
    counts = {name: count for name, (count, _) in (await there(kafka_bootstrap, prefix)).items()}
    assert counts == {topic.full_name(prefix): 5 if topic is REQUESTS else 2 for topic in TOPICS}


async def test_what_the_broker_refuses_is_said_in_its_words(
    kafka_bootstrap: str, make_prefix: Callable[[], str]
) -> None:
    done = await answerbus(
        kafka_bootstrap, make_prefix(), "topics", "apply", replication_factor="32"
    )

    assert done.code == 3
    assert "Kafka does not let us create the topic" in done.err
    assert "replication factor" in done.err

"""Whether the broker is there and has the topics as a worker needs them, found out at start."""

import logging
from collections.abc import Mapping
from typing import Any

from aiokafka.errors import KafkaConnectionError, KafkaError

from answerbus.client.errors import BusRefused, BusUnavailable
from answerbus.client.refusal import refusal_of, words_of
from answerbus.client.way_in import refusal_at
from answerbus.topics import TOPICS, Topic
from services.command_line import bus_of
from services.kafka import OPTION_NAMES, topic_name
from services.settings import KafkaSettings, SetUpError
from services.topics.broker import topics_on
from services.topics.plan import Change, Found, plan

RECORD_LIMIT = "max.message.bytes"

_log = logging.getLogger(__name__)


async def partitions_of_topics(settings: KafkaSettings) -> int:
    """How many partitions all our topics have. Raises SetUpError with the remedy."""
    found = await _look(settings)
    missing = [topic_name(settings, topic) for topic in TOPICS if topic not in found]
    if missing:
        raise SetUpError(_missing(settings, missing[0]))
    counts = {topic_name(settings, topic): there.partitions for topic, there in found.items()}
    if len(set(counts.values())) > 1:
        listed = ", ".join(f"{name} has {count}" for name, count in counts.items())
        raise SetUpError(
            f"All topics need the same number of partitions, but {listed}; recreate those that "
            "differ."
        )
    partitions = next(iter(counts.values()))
    _compare(settings, found, partitions)
    return partitions


def _missing(settings: KafkaSettings, topic: str) -> str:
    """A broker that knows users hides from them what they have no right to."""
    has_rights = settings.security_protocol != "PLAINTEXT"
    hidden, grant = (
        (", or there is no right to see it", ", or grant the user Describe")
        if has_rights
        else ("", "")
    )
    return (
        f"The topic {topic} is missing on {settings.bootstrap_servers}{hidden}; create all topics "
        f"with `answerbus topics apply`{grant}."
    )


def _compare(settings: KafkaSettings, found: Mapping[Topic, Found], partitions: int) -> None:
    """A record that its topic never takes would keep its lane shut for good; the rest is told."""
    steps = plan(found, partitions)
    for step in steps if isinstance(steps, tuple) else ():
        if not isinstance(step, Change):
            continue
        name = topic_name(settings, step.topic)
        for difference in step.differences:
            if difference.found is None:  # nobody lets us see it
                continue
            if difference.name == RECORD_LIMIT and int(difference.found) < int(difference.wanted):
                raise SetUpError(
                    f"The topic {name} takes records of at most {difference.found} bytes, and ours "
                    f"may have {difference.wanted}; mend it with `answerbus topics apply`."
                )
            _log.warning(
                "the topic %s has %s %s instead of %s: see `answerbus doctor`",
                name,
                difference.name,
                difference.found,
                difference.wanted,
            )


async def _look(settings: KafkaSettings) -> Mapping[Topic, Found]:
    try:
        async with topics_on(bus_of(settings)) as topics:
            return await topics.look()
    except BusRefused as error:
        raise SetUpError(str(error)) from None
    except BusUnavailable as error:
        reason = type(error.__cause__ or error).__name__
        raise SetUpError(
            f"No Kafka broker answers at {settings.bootstrap_servers} ({reason}); "
            "start one (`make up`), or correct `kafka.bootstrap_servers`."
        ) from None


async def refused(settings: KafkaSettings, options: Mapping[str, Any]) -> str | None:
    """Why Kafka, which does not answer a running worker, would not let it in; None otherwise."""
    refusal = await refusal_at(settings.bootstrap_servers, options, OPTION_NAMES)
    return str(refusal) if refusal else None


def not_started(settings: KafkaSettings, error: KafkaError) -> SetUpError:
    """What ended a worker while it joined its group."""
    refusal = refusal_of(error)
    if refusal:
        return SetUpError(f"Kafka at {settings.bootstrap_servers} cannot be used, {refusal}.")
    if isinstance(error, KafkaConnectionError):
        return SetUpError(
            f"The Kafka broker at {settings.bootstrap_servers} went away while the worker started; "
            "start the worker again."
        )
    return SetUpError(
        f"The worker could not join its group at {settings.bootstrap_servers} ({words_of(error)}); "
        "see `answerbus doctor`, then start the worker again."
    )

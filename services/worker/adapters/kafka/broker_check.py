"""Whether the broker is there and has the topics as a worker needs them, found out at start."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from aiokafka.errors import KafkaConnectionError, KafkaError

from answerbus.client.connection_check import diagnosis_at
from answerbus.client.diagnosis import describe_error, diagnosis_of
from answerbus.client.errors import BusRefused, BusUnavailable, LanesDisagree
from answerbus.partition import Layout
from answerbus.topics import RUN_TOPICS, TOPICS, Topic
from services.command_line import bus_of
from services.kafka.options import option_names, topic_name
from services.kafka.planning.plan import Found, TopicChange, beyond, plan, unusable
from services.kafka.topics import topics_on
from services.settings.settings import KafkaSettings, SetUpError

RECORD_LIMIT = "max.message.bytes"
RUNS_OFF = (
    "no request can be cancelled, no open run goes on, and one that waits for another try ends as "
    "`unknown_agent`"
)
NO_RIGHTS = (
    "the worker's user lacks rights to the topics of runs; `answerbus topics acls --role worker` "
    "prints them"
)

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class DeploymentLayout:
    """How many partitions the lanes use, and whether the topics of runs have as many.

    `runs_fault` says why not, where some of these topics are there. `former_group` is another
    consumer group, whose lanes these were last.
    """

    partitions: int
    has_run_topics: bool
    runs_fault: str | None = None
    former_group: str | None = None

    def runs_off(self, *, may_use: bool) -> str | None:
        """Why a worker that starts does not use topics of runs that are there."""
        lacks_rights = self.has_run_topics and not may_use
        why = self.runs_fault or (NO_RIGHTS if lacks_rights else None)
        return f"{RUNS_OFF}: {why}" if why else None


async def deployment_layout(settings: KafkaSettings, *, needs_runs: bool) -> DeploymentLayout:
    """The deployment as its topics say; one with agents or budgets `needs_runs`.

    Raises SetUpError with the remedy.
    """
    found, layout, former = await _look(settings, (*TOPICS, *RUN_TOPICS))
    needed = (*TOPICS, *RUN_TOPICS) if needs_runs else TOPICS
    missing = [topic_name(settings, topic) for topic in needed if topic not in found]
    if missing:
        raise SetUpError(_missing(settings, missing[0]))
    if layout is None:
        raise RuntimeError("where all topics are, there is a layout")
    of_runs = {topic: found[topic] for topic in RUN_TOPICS if topic in found}
    fault = None if needs_runs else _runs_fault(settings, of_runs, layout)
    has_run_topics = bool(of_runs) and fault is None
    used = found if has_run_topics else {topic: found[topic] for topic in TOPICS}
    if reason := unusable(used, layout, settings.topic_prefix):
        raise SetUpError(reason)
    if advice := beyond(used, layout.partitions):
        _log.warning("%s", advice)
    _compare(settings, used, layout.partitions)
    return DeploymentLayout(layout.partitions, has_run_topics, fault, former)


def _runs_fault(
    settings: KafkaSettings, there: Mapping[Topic, Found], layout: Layout
) -> str | None:
    """Without them a worker does all but cancel: what is wrong with them keeps it from nothing."""
    missing = [topic_name(settings, topic) for topic in RUN_TOPICS if topic not in there]
    if not there:
        return None
    fault = _missing(settings, missing[0]) if missing else None
    return fault or unusable(there, layout, settings.topic_prefix)


def _missing(settings: KafkaSettings, topic: str) -> str:
    """A broker that knows users hides from them what they have no right to."""
    hidden = grant = ""
    if settings.security_protocol != "PLAINTEXT":
        hidden, grant = ", or there is no right to see it", ", or grant the user Describe"
    return (
        f"The topic {topic} is missing on {settings.bootstrap_servers}{hidden}; create all topics "
        f"with `answerbus topics apply`{grant}."
    )


def _compare(settings: KafkaSettings, found: Mapping[Topic, Found], partitions: int) -> None:
    """Blocks the start for what would block a lane for good; reports the rest."""
    steps = plan(found, partitions)
    for step in steps if isinstance(steps, tuple) else ():
        if not isinstance(step, TopicChange):
            continue
        name = topic_name(settings, step.topic)
        for difference in step.differences:
            if difference.found is None:  # we have no right to see it
                continue
            if difference.name == RECORD_LIMIT and int(difference.found) < int(difference.wanted):
                raise SetUpError(
                    f"The topic {name} takes records of at most {difference.found} bytes, and ours "
                    f"may have {difference.wanted}; correct it with `answerbus topics apply`."
                )
            _log.warning(
                "the topic %s has %s %s instead of %s: correct it with `answerbus topics apply`",
                name,
                difference.name,
                difference.found,
                difference.wanted,
            )


async def _look(
    settings: KafkaSettings, needed: Sequence[Topic]
) -> tuple[Mapping[Topic, Found], Layout | None, str | None]:
    try:
        bus = bus_of(settings)
        async with topics_on(bus, needed) as topics:
            found = await topics.look()
        if not found:
            return found, None, None
        layout, written = await bus.layout_and_lanes()
        groups = {lane.group for lane in written.lanes.values() if lane.group}
        return found, layout, min(groups - {settings.worker_group}, default=None)
    except (BusRefused, LanesDisagree) as error:
        raise SetUpError(str(error)) from None
    except BusUnavailable as error:
        reason = type(error.__cause__ or error).__name__
        raise SetUpError(
            f"No Kafka broker answers at {settings.bootstrap_servers} ({reason}); "
            "start one (`make up`), or correct `kafka.bootstrap_servers`."
        ) from None


async def refused(settings: KafkaSettings, options: Mapping[str, Any]) -> str | None:
    """Why Kafka, which does not answer a running worker, would not let it in; None otherwise."""
    refusal = await diagnosis_at(settings.bootstrap_servers, options, option_names(settings))
    return str(refusal) if refusal else None


def not_started(settings: KafkaSettings, error: KafkaError) -> SetUpError:
    """The error for a worker that ended while it joined its group."""
    refusal = diagnosis_of(error)
    if refusal:
        return SetUpError(f"Kafka at {settings.bootstrap_servers} cannot be used, {refusal}.")
    if isinstance(error, KafkaConnectionError):
        return SetUpError(
            f"The Kafka broker at {settings.bootstrap_servers} went away while the worker started; "
            "start the worker again."
        )
    return SetUpError(
        f"The worker could not join its group at {settings.bootstrap_servers} "
        f"({describe_error(error)}); "
        "see `answerbus doctor`, then start the worker again."
    )


def not_joined(settings: KafkaSettings, trouble: str | None) -> SetUpError:
    """The error for a worker that did not become a member of its group in time."""
    cause = f"the group has no coordinator ({trouble})" if trouble else "the group does not rest"
    return SetUpError(
        f"The worker has not become a member of the consumer group {settings.worker_group} at "
        f"{settings.bootstrap_servers} within {settings.join_limit_s:.0f} s: {cause}; see "
        "`answerbus doctor`, then start the worker again."
    )

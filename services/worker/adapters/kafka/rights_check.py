"""Checks at start that our user has all rights that a worker needs on Kafka."""

import logging

from answerbus.client.errors import BusUnavailable
from answerbus.topics import ACCEPTED_TOOLS, RUN_TOPICS
from services.command_line import bus_of
from services.kafka.held_rights import held_rights, resource_names
from services.kafka.options import topic_name
from services.kafka.planning.rights import Role, rights_of
from services.settings.settings import KafkaSettings, SetUpError

ROLE: Role = "worker"

_log = logging.getLogger(__name__)


async def check_rights(settings: KafkaSettings, partitions: int, *, needs_runs: bool) -> bool:
    """Whether the worker may use the topics of runs; one with agents or budgets `needs_runs`.

    Raises SetUpError that names every right without which this worker could not work. A broker that
    does not say what we may do keeps no worker from its start.
    """
    rights = rights_of(ROLE, resource_names(settings, app_group=""), needs_runs=needs_runs)
    try:
        held = await held_rights(bus_of(settings), rights, range(partitions))
    except BusUnavailable as error:
        _log.warning("cannot list the rights of the worker: %s", error)
        return True
    missing = [right for right, is_held in held.items() if is_held is False]
    of_runs = {topic_name(settings, it) for it in RUN_TOPICS if it is not ACCEPTED_TOOLS}
    lacks_runs = any(right.name in of_runs for right in missing)
    if needed := [str(right) for right in missing if right.needed]:
        raise SetUpError(
            f"The user of the worker has no right at {settings.bootstrap_servers} to "
            f"{'; '.join(needed)}: grant it, `answerbus topics acls --role {ROLE}` prints all that "
            "a worker needs."
        )
    if missing:
        without = "; ".join(f"{right} ({right.why})" for right in missing)
        _log.warning("the user of the worker may do without: %s", without)
    return not lacks_runs

"""Checks at start that our user has all rights that a tool server needs on Kafka."""

import logging

from answerbus.client.errors import BusUnavailable
from services.command_line import bus_of
from services.kafka.held_rights import held_rights, resource_names
from services.kafka.planning.rights import rights_of
from services.settings.settings import KafkaSettings, SetUpError

_log = logging.getLogger(__name__)


async def check_rights(settings: KafkaSettings, toolset: str) -> None:
    """Raises SetUpError that names every right without which calls would have no answer.

    A broker that does not say what we may do keeps no tool server from its start.
    """
    rights = rights_of("tools", resource_names(settings, app_group="", toolset=toolset))
    try:
        held = await held_rights(bus_of(settings), rights)
    except BusUnavailable as error:
        _log.warning("the rights of the tool server are not known: %s", error)
        return
    missing = [str(right) for right in rights if right.needed and held[right] is False]
    if missing:
        raise SetUpError(
            f"The user of the tool server has no right at {settings.bootstrap_servers} to "
            f"{'; '.join(missing)}: grant it, `answerbus topics acls --role tools --toolset "
            f"{toolset}` prints all that a tool server needs."
        )

"""Writes controls from the pages to the controls topic."""

import logging

from answerbus.client.bus import Bus
from answerbus.client.connection import BusConnection
from answerbus.control import Approval, Cancel, Input

_log = logging.getLogger(__name__)


class ControlWriter:
    """Connects for each control: people decide seldom."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus

    async def write(self, control: Approval | Input | Cancel) -> None:
        """Publish it. Raises BusUnavailable."""
        async with BusConnection(self._bus) as connection:
            await connection.control(control)
        _log.info("%s in a workflow, by %s", control.kind, control.by)

"""How calls find the connection that is open when they need one."""

from collections.abc import Callable

from mcp import Client

Connected = Callable[[], Client | None]
"""The client of the open connection; None while there is none."""

"""Keeps the connection to one MCP server: opens it again, and ends when its tools change."""

import asyncio
import logging
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any

from mcp import Client, MCPError
from mcp_types import CONNECTION_CLOSED, INTERNAL_ERROR
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from answerbus.limits import TOOL_TIMEOUT_S_DEFAULT
from answerbus.masking import Mask
from answerbus.tools.toolset import Toolset
from answerbus.toolset_card import ApprovalRule
from services.settings.settings import SetUpError
from services.text.escaping import plain_line
from services.tools.mcp.bridge import toolset_of
from services.tools.mcp.connected import Connected
from services.tools.mcp.mapping.listed import CheckedTool, Unfit
from services.tools.mcp.session import McpSession, ServerPlace
from services.tools.mcp.tasks import EXTENSION
from services.worker.ports.costly_work import CostlyWork

LOOK_AGAIN_S = 30.0  # for tools that changed, and a server that answers nothing
WAIT_S_MIN, WAIT_S_MAX = 1.0, 60.0  # before a connection is opened again

LIMITS = (
    "the bridge calls tools, and {does}. Of what the server offers it does not use: {others}. It "
    "refuses requests for a model, for roots and to visit an address"
)
_MODERN = "asks people what a tool wants to know, and follows tasks"
_BEFORE = "neither asks people what a tool wants to know nor follows tasks, by this version of MCP"
_USED = frozenset({"tools"})
# Errors that a list of tools may end with for a moment: 4xx and 5xx of HTTP are these, too. Others,
# as of a session that is over, do not pass.
_PASSING = frozenset({INTERNAL_ERROR, CONNECTION_CLOSED})

Open = Callable[[ServerPlace], AbstractAsyncContextManager[McpSession]]

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class McpToolset:
    """The tools of an MCP server under a name on the bus; `pin`: only with that digest.

    `costly_work` compiles the schemas that the server has written.
    """

    name: str
    place: ServerPlace
    costly_work: CostlyWork
    approval: ApprovalRule = "never"
    timeout_s: float = TOOL_TIMEOUT_S_DEFAULT
    pin: str | None = None
    repeatable: tuple[str, ...] = ()
    _known: dict[str, CheckedTool | Unfit] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    async def read_toolset(self, client: Client, connected: Connected) -> Toolset:
        """The tools that the server offers now."""
        return await toolset_of(
            client,
            connected,
            self.name,
            self.costly_work,
            approval=self.approval,
            timeout_s=self.timeout_s,
            repeatable=self.repeatable,
            known=self._known,
            mask=Mask(self.place.secrets),
        )

    def refused(self, toolset: Toolset) -> str | None:
        """Why these tools are not served."""
        digest = toolset.card().computed_digest()
        if not toolset.tools:
            return f"The MCP server of {self.name} offers no tool that can be served."
        if unknown := [name for name in self.repeatable if name not in toolset.tools]:
            return f"The MCP server of {self.name} has no tool {unknown[0]}, named by --repeatable."
        if self.pin in (None, digest):
            return None
        for tool in toolset.tools.values():  # `answerbus tools list` shows those announced before
            _log.info("offered now: %s", tool.card.model_dump_json(exclude={"digest"}))
        return (
            f"The MCP server of {self.name} offers other tools than those that were pinned: their "
            f"digest is {digest}. Look at them in the log before this line, then pin this one."
        )


class McpConnection:
    """`toolset` is what the first connection offered; later ones must offer the same.

    `fault` says why it is over, once it is.
    """

    def __init__(
        self,
        served: McpToolset,
        open_session: Open,
        *,
        look_again_s: float = LOOK_AGAIN_S,
        wait_s: float = WAIT_S_MIN,
    ) -> None:
        self._served, self._open = served, open_session
        self._look_again_s, self._wait_s_min = look_again_s, wait_s
        self._mask = Mask(served.place.secrets)
        self._client: Client | None = None
        self.toolset: asyncio.Future[Toolset] = asyncio.get_running_loop().create_future()
        self.fault: str | None = None

    async def keep(self) -> None:
        """Return once the tools changed, or the first connection failed."""
        loop, wait_s = asyncio.get_running_loop(), self._wait_s_min
        while self.fault is None:
            began_s = loop.time()
            try:
                async with self._open(self._served.place) as opened:
                    await self._use(opened)
            except (Exception, BaseExceptionGroup) as error:
                if (task := asyncio.current_task()) and task.cancelling():
                    raise asyncio.CancelledError from error  # the session's end came before it
                if not self.toolset.done():
                    self.toolset.set_exception(self._unusable(error))
                    return
                wait_s = self._wait_s_min if loop.time() - began_s > WAIT_S_MAX else wait_s
                _log.warning(
                    "the MCP server is connected to again in %g s: %s", wait_s, self._words(error)
                )
                await asyncio.sleep(wait_s)
                wait_s = min(2 * wait_s, WAIT_S_MAX)
            finally:
                self._client = None

    async def _use(self, opened: McpSession) -> None:
        """Until it ends, which raises, or its tools are other ones."""
        _log_limits(opened.client)
        while True:
            toolset = await self._looked_at(opened)
            if toolset is not None:
                if not self.toolset.done():
                    self.toolset.set_result(toolset)
                elif _digest(toolset) != _digest(self.toolset.result()):
                    self.fault = "its tools changed; start it again to serve what it offers now"
                    return
                self._client = opened.client
            try:
                async with asyncio.timeout(self._look_again_s):
                    await opened.ended.wait()
            except TimeoutError:
                continue
            raise ConnectionError("the connection has ended")

    async def _looked_at(self, opened: McpSession) -> Toolset | None:
        """The tools that the server offers now; None while it is busy with calls.

        Many servers on stdio do one thing at a time, and others refuse what comes too often: to
        close the connection would end a call that has time left. A call may be sent as late as the
        next look was due, and be silent then.
        """
        try:
            return await self._served.read_toolset(opened.client, lambda: self._client)
        except (TimeoutError, MCPError) as error:
            passes = isinstance(error, TimeoutError) or error.error.code in _PASSING
            silent_s = self._served.timeout_s + self._look_again_s
            if not passes or not opened.calls.keep_busy(silent_s):
                raise
            _log.info("the MCP server is busy with calls; its tools are looked at later")
            return None

    def _unusable(self, error: BaseException) -> SetUpError:
        place, words = self._served.place.shown, self._words(error)
        return SetUpError(f"The MCP server {place} cannot be used: {words}.")

    def _words(self, error: BaseException) -> str:
        """On one line, without the server's secrets: others wrote them."""
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        words = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        return plain_line(self._mask(words))


def _digest(toolset: Toolset) -> str:
    return toolset.card().computed_digest()


def _log_limits(client: Client) -> None:
    offered = client.server_capabilities.model_dump(exclude_none=True)
    others = sorted(_offered(offered) - _USED) or ["nothing"]
    does = _MODERN if client.protocol_version in MODERN_PROTOCOL_VERSIONS else _BEFORE
    limits = LIMITS.format(does=does, others=", ".join(others))
    _log.info("MCP %s; %s", client.protocol_version, limits)


def _offered(capabilities: Mapping[str, Any]) -> set[str]:
    """A server's capabilities; its extensions by their names."""
    extensions = capabilities.get("extensions") or {}
    return ({*capabilities} - {"extensions"}) | ({*extensions} - {EXTENSION})

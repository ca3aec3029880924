"""Serves a toolset, or an MCP server, with the settings of the command line."""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass

from answerbus.client.errors import BusUnavailable
from answerbus.masking import NO_MASK, Mask
from answerbus.tools.kafka import SESSION_MS
from answerbus.tools.server import (
    CONCURRENCY_DEFAULT,
    DRAIN_S_DEFAULT,
    ServerStuckError,
    ToolServer,
)
from answerbus.tools.serving import serve_on
from answerbus.tools.toolset import Toolset
from answerbus.toolset_card import ApprovalRule
from services.command_line import bus_of
from services.kafka.held_rights import held_rights, resource_names
from services.kafka.planning.rights import rights_of
from services.settings.settings import KafkaSettings, SetUpError, secret
from services.telemetry.text_lines import start_text_logging
from services.worker.adapters.costly_work.child_process import ChildProcess

_LOG_ADDRESSES = ("httpx2", "mcp")  # in each request, with keys in them; and ids of sessions

_log = logging.getLogger(__name__)


def serve_toolset(
    settings: KafkaSettings, toolset: Toolset, concurrency: int, drain_s: float
) -> None:
    """Until SIGTERM or Ctrl-C. Raises BusUnavailable, SetUpError."""
    start_text_logging(NO_MASK)
    try:
        asyncio.run(serve_checked(settings, toolset, concurrency=concurrency, drain_s=drain_s))
    except ServerStuckError as error:
        raise SetUpError(f"The tool server ends: {error}; start it again.") from error


async def serve_checked(
    settings: KafkaSettings,
    toolset: Toolset,
    *,
    concurrency: int = CONCURRENCY_DEFAULT,
    drain_s: float = DRAIN_S_DEFAULT,
    on_ready: Callable[[ToolServer], None] | None = None,
) -> None:
    """With all rights, or not at all. Raises BusUnavailable, SetUpError, ServerStuckError."""
    await check_rights(settings, toolset.name)
    await serve_on(
        bus_of(settings),
        toolset,
        concurrency=concurrency,
        drain_s=drain_s,
        session_ms=_session_ms(settings),
        on_ready=on_ready,
    )


@dataclass(frozen=True, slots=True)
class McpOptions:
    """The command's options for an MCP server."""

    name: str
    command: tuple[str, ...]
    url: str | None
    variables: tuple[str, ...]
    bearer_variable: str | None
    approval: ApprovalRule
    timeout_s: float
    pin: str | None
    repeatable: tuple[str, ...] = ()


def serve_mcp_server(
    settings: KafkaSettings, options: McpOptions, concurrency: int, drain_s: float
) -> None:
    """Until SIGTERM or Ctrl-C. Raises BusUnavailable, SetUpError."""
    try:
        from services.tools.mcp.connection import McpToolset  # noqa: PLC0415 - an extra
        from services.tools.mcp.serving import serve_mcp  # noqa: PLC0415
        from services.tools.mcp.session import ServerPlace  # noqa: PLC0415
    except ModuleNotFoundError as missing:
        raise SetUpError(
            f"MCP servers need the package {missing.name}: pip install 'answerbus-services[mcp]'"
        ) from missing
    place = ServerPlace(
        options.command,
        options.url,
        tuple((name, _set(name)) for name in options.variables),
        _token_in(options.bearer_variable) if options.bearer_variable else None,
    )
    start_text_logging(Mask(place.secrets))
    for library in _LOG_ADDRESSES:
        logging.getLogger(library).setLevel(logging.WARNING)

    async def serving() -> None:
        work = ChildProcess()
        served = McpToolset(
            options.name,
            place,
            work,
            options.approval,
            options.timeout_s,
            options.pin,
            options.repeatable,
        )
        await check_rights(settings, served.name)
        try:
            await serve_mcp(
                bus_of(settings),
                served,
                concurrency=concurrency,
                drain_s=drain_s,
                session_ms=_session_ms(settings),
            )
        finally:
            await work.close()

    asyncio.run(serving())


def _set(variable: str) -> str:
    value = secret(variable)
    if value is None:
        raise SetUpError(f"The variable {variable} is not set.")
    return value


def _token_in(variable: str) -> str:
    """Refuses a token that no header can carry, which the HTTP client's error would show."""
    token = _set(variable).strip()  # files and secrets often end with a line
    if not (token.isascii() and token.isprintable()):
        raise SetUpError(f"The token in {variable} has a character that no header can carry.")
    return token


def _session_ms(settings: KafkaSettings) -> int:
    return min(settings.session_timeout_ms, SESSION_MS)


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

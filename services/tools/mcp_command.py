"""`answerbus tools mcp`: serve what an MCP server offers."""

from typing import Annotated

import typer

from answerbus.limits import TOOL_TIMEOUT_S_DEFAULT
from answerbus.tools.server import CONCURRENCY_DEFAULT, DRAIN_S_DEFAULT
from answerbus.toolset_card import ApprovalRule
from services.command_line import Config
from services.settings import from_environment

Concurrency = Annotated[
    int, typer.Option("--concurrency", min=1, max=256, help="How many tools run side by side.")
]
DrainS = Annotated[
    float, typer.Option("--drain-s", min=0, help="How long running tools may take at the end.")
]


def mcp(
    name: Annotated[str, typer.Argument(help="What the toolset is called on the bus.")],
    command: Annotated[
        list[str] | None, typer.Argument(metavar="-- COMMAND...", help="What starts the server.")
    ] = None,
    *,
    url: Annotated[str | None, typer.Option("--url", help="Of a server that runs.")] = None,
    pin: Annotated[
        str | None,
        typer.Option("--pin", metavar="DIGEST", help="Serve these very tools alone."),
    ] = None,
    approval: Annotated[
        ApprovalRule, typer.Option("--approval", help="Whether a person approves calls.")
    ] = "never",
    timeout_s: Annotated[
        float, typer.Option("--tool-timeout-s", min=0.001, help="How long a tool may be silent.")
    ] = TOOL_TIMEOUT_S_DEFAULT,
    env: Annotated[
        list[str] | None,
        typer.Option("--env", metavar="NAME", help="A variable that the server gets, too."),
    ] = None,
    bearer_env: Annotated[
        str | None,
        typer.Option("--bearer-env", metavar="NAME", help="The variable with its bearer token."),
    ] = None,
    concurrency: Concurrency = CONCURRENCY_DEFAULT,
    drain_s: DrainS = DRAIN_S_DEFAULT,
    config: Config = None,
) -> None:
    """Serve the tools of an MCP server, started by a command or at a URL.

    What says of itself that it reads only and may be repeated runs at least once, all else at most
    once. Ends if the server changes its tools.
    """
    from services.tools.serving import McpOptions, serve_mcp_server  # noqa: PLC0415 - the SDK

    if bool(command) is bool(url):
        raise typer.BadParameter("an MCP server has either --url or a command behind --")
    options = McpOptions(
        name,
        tuple(command or ()),
        url,
        tuple(env or ()),
        bearer_env,
        approval,
        timeout_s,
        pin,
    )
    serve_mcp_server(from_environment(config).kafka, options, concurrency, drain_s)

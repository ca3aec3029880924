"""`answerbus tools mcp`: serves the tools of an MCP server."""

from typing import Annotated

import typer
from pydantic import TypeAdapter, ValidationError

from answerbus.limits import TOOL_TIMEOUT_S_DEFAULT, TOOL_TIMEOUT_S_MAX
from answerbus.tool_call import ToolsetName
from answerbus.tools.server import CONCURRENCY_DEFAULT, DRAIN_S_DEFAULT
from answerbus.toolset_card import ApprovalRule
from services.command_line import Config
from services.settings.settings import from_environment

Concurrency = Annotated[
    int, typer.Option("--concurrency", min=1, max=256, help="How many calls run side by side.")
]
DrainS = Annotated[
    float, typer.Option("--drain-s", min=0, help="How many seconds running tools have to end.")
]
Url = Annotated[
    str | None,
    typer.Option("--url", metavar="URL", help="The address of a server that runs."),
]

BearerEnv = Annotated[
    str | None,
    typer.Option(
        "--bearer-env", metavar="NAME", help="The variable that holds the token for --url."
    ),
]
ToolTimeoutS = Annotated[
    float,
    typer.Option(
        "--tool-timeout-s",
        min=0.001,
        max=TOOL_TIMEOUT_S_MAX,
        help="How many seconds a tool may be silent.",
    ),
]
Repeatable = Annotated[
    list[str] | None,
    typer.Option(
        "--repeatable",
        metavar="TOOL",
        help="A tool that an equal call in the next step calls again; may be repeated.",
    ),
]


def check_name(toolset: str) -> None:
    """Raises typer.BadParameter for a name that no toolset may have."""
    try:
        TypeAdapter(ToolsetName).validate_python(toolset)
    except ValidationError:
        rule = "64 characters at most of a-z, 0-9, `_` and `-`"
        raise typer.BadParameter(f"{toolset!r} cannot be the name of a toolset: {rule}.") from None


def mcp(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="The name of the toolset on the bus.")
    ],
    command: Annotated[
        list[str] | None,
        typer.Argument(metavar="-- COMMAND...", help="The command that starts the server."),
    ] = None,
    *,
    url: Url = None,
    pin: Annotated[
        str | None,
        typer.Option(
            "--pin", metavar="DIGEST", help="Serve the tools only if they have this digest."
        ),
    ] = None,
    approval: Annotated[
        ApprovalRule, typer.Option("--approval", help="Which calls a person must approve.")
    ] = "never",
    timeout_s: ToolTimeoutS = TOOL_TIMEOUT_S_DEFAULT,
    repeatable: Repeatable = None,
    env: Annotated[
        list[str] | None,
        typer.Option(
            "--env", metavar="NAME", help="A variable that the server is given; repeatable."
        ),
    ] = None,
    bearer_env: BearerEnv = None,
    concurrency: Concurrency = CONCURRENCY_DEFAULT,
    drain_s: DrainS = DRAIN_S_DEFAULT,
    config: Config = None,
) -> None:
    """Serve the tools of an MCP server, which a command starts or which runs at a URL.

    A tool that is marked as read-only and idempotent runs at least once, each other tool at most
    once. Ends if the server changes its tools.
    """
    from services.tools.serving import McpOptions, serve_mcp_server  # noqa: PLC0415 - the SDK

    check_name(name)
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
        tuple(repeatable or ()),
    )
    serve_mcp_server(from_environment(config).kafka, options, concurrency, drain_s)

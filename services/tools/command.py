"""`answerbus tools`: serve tools, list them, call one by hand, check a server."""

import asyncio
import base64
import secrets
import sys
from importlib import import_module
from typing import Annotated, Any

import typer
from pydantic import JsonValue
from rich.box import SIMPLE
from rich.table import Table
from rich.text import Text

from answerbus import json_text
from answerbus.limits import TOOL_TIMEOUT_S_DEFAULT
from answerbus.tool_result import NOT_APPROVED, ToolFailure, ToolOk, ToolProgress, ToolResult
from answerbus.tools.server import CONCURRENCY_DEFAULT, DRAIN_S_DEFAULT
from answerbus.toolset_card import ToolsetCard
from answerbus.topics import tool_calls
from services.command_line import AsJson, Config, bus_of, json_shown, print_table, stderr, stdout
from services.operator_options import By, operator
from services.settings.settings import SetUpError, from_environment
from services.text.escaping import json_lines, plain_line
from services.tools.accept_command import accept
from services.tools.check.cases import Ruling, Sample
from services.tools.mcp_command import Concurrency, DrainS, check_name, mcp

app = typer.Typer(
    help="Serve, list, call and check tools, also those of MCP servers.", no_args_is_help=True
)

TimeoutS = Annotated[
    float, typer.Option("--timeout", "--timeout-s", min=1, help="How many seconds to wait.")
]
Approve = Annotated[
    bool, typer.Option("--approve", help="Approve this call, where the tool wants a person to.")
]


@app.command()
def serve(
    place: Annotated[str, typer.Argument(metavar="MODULE:NAME", help="Where the Toolset is.")],
    *,
    concurrency: Concurrency = CONCURRENCY_DEFAULT,
    drain_s: DrainS = DRAIN_S_DEFAULT,
    config: Config = None,
) -> None:
    """Serve a toolset until SIGTERM or Ctrl-C; announces its card first."""
    from services.tools.serving import serve_toolset  # noqa: PLC0415 - loads Kafka's client

    toolset = _imported(place)
    serve_toolset(from_environment(config).kafka, toolset, concurrency, drain_s)


app.command()(mcp)
app.command()(accept)


@app.command()
def topics(
    toolsets: Annotated[list[str], typer.Argument(metavar="TOOLSET...", help="Their names.")],
    *,
    config: Config = None,
) -> None:
    """Create the topics that tool servers need, where they may not do so themselves."""
    from answerbus.tools import topic_set_up  # noqa: PLC0415 - Kafka's client

    for name in toolsets:
        check_name(name)
    bus = bus_of(from_environment(config).kafka)
    asyncio.run(topic_set_up.create_missing(bus, *toolsets))
    for topic in topic_set_up.topics_of(*toolsets):
        stdout().print(topic.full_name(bus.prefix))


@app.command(name="list")
def list_(*, as_json: AsJson = False, config: Config = None) -> None:
    """Show the toolsets that were announced, with their tools and the digests to pin."""
    from services.tools.caller import cards  # noqa: PLC0415 - Kafka's client

    found = asyncio.run(cards(bus_of(from_environment(config).kafka)))
    known = [card for card in found if isinstance(card, ToolsetCard)]
    if unreadable := len(found) - len(known):
        stderr().print(f"{unreadable} records are not cards", style="red")
    if as_json:
        typer.echo(json_lines([card_data(card) for card in known]))
        return
    if not known:
        stderr().print("No toolset was announced: `answerbus tools serve MODULE:NAME` serves one.")
    for card in known:
        stdout().print(f"{card.toolset}  {card.computed_digest()}", style="bold", markup=False)
        print_table(stdout(), tools_table(card))


@app.command()
def call(
    tool: Annotated[
        str, typer.Argument(metavar="TOOLSET.TOOL", help="The tool, such as orders.get_order.")
    ],
    args: Annotated[str, typer.Argument(metavar="JSON", help="Its arguments, an object.")] = "{}",
    *,
    timeout_s: TimeoutS = TOOL_TIMEOUT_S_DEFAULT,
    approve: Approve = False,
    by: By = None,
    as_json: AsJson = False,
    config: Config = None,
) -> None:
    """Call a tool by hand, with its effects. Exit code 1: it failed, or gave no answer in time."""
    from services.tools.calling import call_once  # noqa: PLC0415 - Kafka's client

    toolset, _, name = tool.partition(".")
    if not name:
        raise typer.BadParameter("a tool is named TOOLSET.TOOL, such as orders.get_order")
    bus = bus_of(from_environment(config).kafka)
    approved_by = operator(by) if approve else None
    calling = call_once(
        bus,
        toolset,
        Sample(name, _object(args), approved_by),
        name=_name("call"),
        token=_token(),
        timeout_s=timeout_s,
        on_progress=show_progress,
    )
    result = asyncio.run(calling)
    if as_json and result is not None:
        typer.echo(json_lines(result.model_dump(mode="json")))
    elif result is not None:
        show_result(result)
    if result is None:
        stderr().print(f"no answer within {timeout_s:g} s: does a server of {toolset} run?")
    raise typer.Exit(0 if result is not None and isinstance(result.outcome, ToolOk) else 1)


@app.command()
def check(
    toolset: Annotated[
        str, typer.Argument(metavar="TOPIC|TOOLSET", help="The toolset whose server is checked.")
    ],
    *,
    sample: Annotated[
        tuple[str, str] | None,
        typer.Option("--call", metavar="TOOL JSON", help="A call that may run, with its effects."),
    ] = None,
    timeout_s: TimeoutS = TOOL_TIMEOUT_S_DEFAULT,
    approve: Approve = False,
    by: By = None,
    as_json: AsJson = False,
    config: Config = None,
) -> None:
    """Check that a tool server, in any language, keeps the rules of docs/wire.md.

    Nothing is run but what `--call` names. Exit code 1: it breaks a rule.
    """
    from services.tools.calling import check_now  # noqa: PLC0415 - Kafka's client

    bus = bus_of(from_environment(config).kafka)
    approved_by = operator(by) if approve else None
    tried = Sample(sample[0], _object(sample[1]), approved_by) if sample else None
    with stderr().status("checking") as status:
        name = _toolset_of(toolset, bus.prefix)
        checking = check_now(bus, name, tried, _name("check"), _token(), timeout_s, status.update)
        found = asyncio.run(checking)
    if as_json:
        typer.echo(json_lines([ruling_data(one) for one in found]))
    else:
        for one in found:
            stdout().print(ruling_line(one))
    raise typer.Exit(1 if any(one.verdict == "wrong" for one in found) else 0)


def _imported(place: str) -> Any:
    from answerbus.tools.toolset import Toolset  # noqa: PLC0415

    module, _, name = place.partition(":")
    if not module or not name:
        raise typer.BadParameter("a toolset is named MODULE:NAME, such as orders.tools:orders")
    sys.path.insert(0, "")  # the user's own modules stand where they are
    try:
        found = getattr(import_module(module), name)
    except Exception as error:  # the user's own module may fail in any way
        why = plain_line(f"{type(error).__name__}: {error}")
        raise SetUpError(f"The toolset {place} cannot be loaded: {why}") from error
    if not isinstance(found, Toolset):
        raise SetUpError(f"{place} is not a Toolset but a {type(found).__name__}.")
    if not found.tools:
        raise SetUpError(f"The toolset {place} has no tools: decorate a function with `.tool`.")
    return found


def _object(text: str) -> dict[str, JsonValue]:
    match json_text.parse(text.encode()):
        case json_text.Parsed(value=dict() as found):
            return found
        case json_text.Parsed():
            raise typer.BadParameter("arguments are a JSON object")
        case json_text.NotJson(reason=reason):
            raise typer.BadParameter(f"arguments are a JSON object: expected {reason}")


def _toolset_of(name: str, prefix: str) -> str:
    """Of a topic its toolset."""
    first, _, rest = tool_calls("|").full_name(prefix).partition("|")
    if name.startswith(first) and name.endswith(rest):
        return name[len(first) : -len(rest)]
    return name


def _name(what: str) -> str:
    return f"tools-{what}-{secrets.token_hex(8)}"


def _token() -> str:
    return base64.b64encode(secrets.token_bytes(16)).decode()


SHORT_NAME = 50  # characters, which leave room for the other columns in a terminal of 80
_STYLES = {"ok": "green", "wrong": "bold red", "skipped": "dim"}


def tools_table(card: ToolsetCard) -> Table:
    """A row for each tool, with its name on one line: it is what agents and calls are given.

    Where a name is longer than SHORT_NAME, names are folded as the other columns are.
    """
    table = Table(box=SIMPLE, show_edge=False, pad_edge=False)
    table.add_column("tool", overflow="fold", no_wrap=_longest(card) <= SHORT_NAME)
    for heading in ("delivery", "approval", "time-out", "what it does"):
        table.add_column(heading, overflow="fold")
    for tool in card.tools:
        words = plain_line(tool.description.strip().partition("\n")[0])
        timeout = f"{tool.timeout_s:g} s"
        table.add_row(f"{card.toolset}.{tool.name}", tool.delivery, tool.approval, timeout, words)
    return table


def _longest(card: ToolsetCard) -> int:
    return max((len(card.toolset) + len(tool.name) + 1 for tool in card.tools), default=0)


def show_progress(progress: ToolProgress) -> None:
    """A sign of life, beside the data."""
    stderr().print(f"… {progress.note}" if progress.note else "…", style="dim", markup=False)


def show_result(result: ToolResult) -> None:
    """A value as data; a failure and notes beside it."""
    match result.outcome:
        case ToolOk(value=value):
            stdout().print(json_shown(value))
        case ToolFailure() as failed:
            stderr().print(f"{failed.code}: {failed.message}", style="red", markup=False)
            if failed.code == NOT_APPROVED:
                stderr().print("`--approve` approves this call.", style="dim", markup=False)
            for problem in failed.problems:
                place = problem.path or "all of it"
                stderr().print(f"  {place}: {problem.expected}", style="red", markup=False)
    for note in result.notes:
        stderr().print(f"note: {note}", style="dim", markup=False)


def ruling_line(ruling: Ruling) -> Text:
    """Verdict, rule, and what was seen."""
    verdict = (f"{ruling.verdict:<8}", _STYLES[ruling.verdict])
    return Text.assemble(verdict, (plain_line(ruling.rule), "bold"), f": {plain_line(ruling.said)}")


def ruling_data(ruling: Ruling) -> dict[str, str]:
    return {"rule": ruling.rule, "verdict": ruling.verdict, "said": ruling.said}


def card_data(card: ToolsetCard) -> dict[str, Any]:
    """A card with the digests that its readers compute."""
    digests = {tool.name: tool.computed_digest() for tool in card.tools}
    data = card.model_dump(mode="json")
    tools = [{**tool, "digest": digests[tool["name"]]} for tool in data["tools"]]
    return {**data, "tools": tools, "digest": card.computed_digest()}

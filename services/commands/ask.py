"""The options of `answerbus ask`; its work is in asking.py, whose libraries load slowly."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from answerbus.limits import ATTEMPTS_DEFAULT, TTL_S_DEFAULT
from services.command_line import AsJson, Config

if TYPE_CHECKING:
    from services.commands.asking import How


_POLICIES = (
    "on_invalid=retry",
    "on_invalid=dead_letter",
    "on_refusal=publish",
    "on_refusal=retry",
    "ordering=workflow",
    "ordering=none",
)
WAIT_S_DEFAULT = 120.0
RUN_WAIT_DEFAULT = "until 60 s after its deadline"  # it may wait for tools and for people


def _contract_names() -> list[str]:
    """Read when a shell completes a line: plug-ins take a while to load."""
    from services.settings.plugins import contracts_with_distributions  # noqa: PLC0415

    return [
        f"{contract.name}.v{contract.version}" for contract, _ in contracts_with_distributions()
    ]


def _profile_names(ctx: Any) -> list[str]:
    from services.settings.settings import from_environment  # noqa: PLC0415

    config = ctx.params.get("config")
    return list(from_environment(Path(config) if config else None).profiles)


_Texts = list[str] | None
Instructions = Annotated[str | None, typer.Argument(help="The instructions for the model.")]
RequestFile = Annotated[
    str | None, typer.Option("--request", metavar="FILE|-", help="A whole request as JSON.")
]
ContractName = Annotated[
    str | None,
    typer.Option(
        "--contract",
        metavar="NAME",
        help="Answer by a contract, as plan_proposal.v1.",
        autocompletion=_contract_names,
    ),
]
SchemaFile = Annotated[
    str | None,
    typer.Option(
        "--schema", metavar="FILE", help="Answer by a JSON Schema.", show_default="a text"
    ),
]
Workflow = Annotated[
    str | None, typer.Option(metavar="ID", help="The request's workflow.", show_default="a new one")
]
Facts = Annotated[
    _Texts,
    typer.Option(
        "--fact", metavar="NAME=VALUE", help="Data: name=@file, name=json or name=text; repeatable."
    ),
]
Messages = Annotated[
    _Texts, typer.Option("--message", metavar="TEXT", help="What the user said; repeatable.")
]
ProfileName = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="Which of the workers' profiles to ask.",
        show_default="default",
        autocompletion=_profile_names,
    ),
]
Attempts = Annotated[
    int | None,
    typer.Option(help="The workflow's budget in attempts.", show_default=str(ATTEMPTS_DEFAULT)),
]
Tokens = Annotated[int | None, typer.Option(help="The workflow's budget in tokens.")]
TimeToLive = Annotated[
    int | None,
    typer.Option(
        help="Seconds after which the answer is no longer needed.", show_default=str(TTL_S_DEFAULT)
    ),
]
AgentName = Annotated[
    str | None,
    typer.Option("--agent", metavar="NAME", help="An agent works on it, as support or support.v3."),
]
Tools = Annotated[
    _Texts,
    typer.Option(
        "--tool", metavar="TOOLSET.TOOL", help="Only this one of the agent's tools; repeatable."
    ),
]
FollowRun = Annotated[
    bool, typer.Option("--follow", help="Show what the agent does, step by step.")
]
Bare = Annotated[
    bool, typer.Option("--bare", help="With --schema: the answer alone, without a way to decline.")
]
Money = Annotated[
    str | None, typer.Option(metavar="USD", help="The workflow's budget in US dollars, as 0.25.")
]
AtLast = Annotated[
    Literal["dead_letter", "text", "unvalidated"] | None,
    typer.Option(
        help="If no attempt was valid: text accepts plain text, unvalidated publishes the last "
        "answer, marked.",
        show_default="dead_letter",
    ),
]
Policies = Annotated[
    _Texts,
    typer.Option(
        "--policy",
        metavar="KEY=VALUE",
        help=f"One of {', '.join(_POLICIES)}; repeatable.",
        autocompletion=lambda: _POLICIES,
    ),
]
Labels = Annotated[
    _Texts,
    typer.Option("--label", metavar="KEY=VALUE", help="Returned with the outcome; repeatable."),
]
Timeout = Annotated[
    float | None,
    typer.Option(
        min=0,
        help="How many seconds to wait for the outcome.",
        show_default=f"{WAIT_S_DEFAULT:g}, for a run {RUN_WAIT_DEFAULT}",
    ),
]
NoWait = Annotated[bool, typer.Option("--no-wait", help="Publish only.")]


def ask(
    instructions: Instructions = None,
    *,
    request: RequestFile = None,
    contract: ContractName = None,
    schema: SchemaFile = None,
    workflow: Workflow = None,
    fact: Facts = None,
    message: Messages = None,
    profile: ProfileName = None,
    attempts: Attempts = None,
    tokens: Tokens = None,
    money: Money = None,
    ttl: TimeToLive = None,
    bare: Bare = False,
    at_last: AtLast = None,
    policy: Policies = None,
    label: Labels = None,
    timeout: Timeout = None,
    no_wait: NoWait = False,
    agent: AgentName = None,
    tool: Tools = None,
    follow: FollowRun = False,
    as_json: AsJson = False,
    config: Config = None,
) -> None:
    """Ask one thing; exit code 0 if there is a result, 1 for any other outcome or none in time."""
    from services.commands.ask_request import AskArguments  # noqa: PLC0415 - see the module
    from services.commands.asking import ask_once  # noqa: PLC0415

    line = AskArguments(
        instructions or "",
        workflow,
        contract,
        schema,
        tuple(fact or ()),
        tuple(message or ()),
        profile,
        attempts,
        tokens,
        money,
        ttl,
        tuple(label or ()),
        bare,
        at_last,
        tuple(policy or ()),
        agent,
        tuple(tool or ()),
    )
    if follow and no_wait:
        raise typer.BadParameter("Give --follow or --no-wait, not both.")
    how: How = "follow" if follow else "publish" if no_wait else "wait"
    if not ask_once(line, request, config, timeout, how=how, as_json=as_json):
        raise typer.Exit(1)

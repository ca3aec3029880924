"""`answerbus chat`: a conversation with an agent, each turn a run of one workflow."""

from typing import Annotated

import typer

from services.command_line import AsJson, Config
from services.commands.ask import RUN_WAIT_DEFAULT

ATTEMPTS_DEFAULT = 1_000  # a workflow has one budget, and a conversation many turns

AgentName = Annotated[
    str, typer.Argument(metavar="AGENT", help="An agent of the workers, as support or support.v3.")
]
Workflow = Annotated[
    str | None,
    typer.Option("--workflow", metavar="ID", help="The workflow of all turns. Default: a new one."),
]
Profile = Annotated[str | None, typer.Option(help="Which of the workers' profiles to ask.")]
Attempts = Annotated[int, typer.Option(min=1, help="The budget of all turns, in attempts.")]
Timeout = Annotated[
    float | None,
    typer.Option(
        min=0, help=f"How many seconds to wait for each turn. [default: {RUN_WAIT_DEFAULT}]"
    ),
]


def chat(
    agent: AgentName,
    *,
    workflow: Workflow = None,
    profile: Profile = None,
    attempts: Attempts = ATTEMPTS_DEFAULT,
    timeout: Timeout = None,
    as_json: AsJson = False,
    config: Config = None,
) -> None:
    """Talk to an agent, a line a turn, until Ctrl-D. Exit code 1: a turn had no answer."""
    from services.commands.chatting import Chat, converse  # noqa: PLC0415 - Kafka's client

    conversation = Chat.of(agent, workflow, profile, attempts)
    is_well = converse(conversation, config, timeout, as_json=as_json)
    if not is_well:
        raise typer.Exit(1)

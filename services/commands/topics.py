"""`answerbus topics`: brings a broker's topics into the declared form, and shows the table."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Annotated, assert_never

import typer
from rich.table import Table
from rich.text import Text

from answerbus.topics import REQUESTS, RUN_TOPICS, TOPICS, Topic
from services.command_line import AsJson, Config, bus_of, print_table, stderr, stdout
from services.kafka.held_rights import resource_names
from services.kafka.planning.acl_formats import AclFormat, Grantee, rendered
from services.kafka.planning.plan import (
    Create,
    Grow,
    Keep,
    Refused,
    Step,
    TopicChange,
    beyond,
    needed,
    plan,
)
from services.kafka.planning.rights import TOOLSET_DEFAULT, Role, rights_of
from services.kafka.topics import topics_on
from services.settings.agents import installed_agents
from services.settings.settings import (
    PARTITIONS_MAX,
    KafkaSettings,
    SetUpError,
    from_environment,
)
from services.text.counted import count_text
from services.text.escaping import json_lines, plain
from services.tools.mcp_command import check_name

_DAY_MS = 86_400_000

app = typer.Typer(help="Create, change and list the topics.", no_args_is_help=True)

RoleOption = Annotated[Role, typer.Option("--role", help="Who gets the rights.")]
UserOption = Annotated[
    str | None, typer.Option("--user", help="As which user. Default: <prefix>-<role>.")
]
GroupOption = Annotated[
    str | None,
    typer.Option("--group", help="The group of an app's subscriptions. Default: the user's name."),
]
ToolsetOption = Annotated[str, typer.Option("--toolset", help="What a tool server serves.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only say what would be done.")]
Runs = Annotated[
    bool,
    typer.Option(
        "--runs",
        help="Also the topics for cancelling requests; always made with agents, or if some exist.",
    ),
]
Toolsets = Annotated[
    list[str] | None,
    typer.Option(
        "--toolset",
        metavar="TOOLSET",
        help="Also the topics of this toolset; may be repeated. Those of agents are always made.",
    ),
]


@app.command()
def acls(
    role: RoleOption,
    *,
    style: Annotated[AclFormat, typer.Option("--format", help="For which tool.")] = "kafka",
    user: UserOption = None,
    group: GroupOption = None,
    toolset: ToolsetOption = TOOLSET_DEFAULT,
    as_json: AsJson = False,
    config: Config = None,
) -> None:
    """Print exactly the rights that a role needs; nothing is asked of Kafka, and nothing granted.

    A right with "optional" in its reason may be left out: the role works without it.
    """
    kafka = from_environment(config).kafka
    grantee = Grantee(role, user or f"{kafka.topic_prefix}-{role}")
    names = resource_names(kafka, group or grantee.user, toolset)
    rights = rights_of(role, names)
    if as_json:
        typer.echo(json_lines([asdict(right) for right in rights]))
    else:
        typer.echo(rendered(style, grantee, rights), nl=False)


@app.command()
def apply(
    *,
    runs: Runs = False,
    toolset: Toolsets = None,
    dry_run: DryRun = False,
    as_json: AsJson = False,
    config: Config = None,
) -> None:
    """Create missing topics and correct settings that differ; repeating it does no harm."""
    for name in toolset or ():
        check_name(name.partition(".")[0])
    whole = from_environment(config)
    settings, agents = whole.kafka, [*whole.agents.values(), *installed_agents().values()]
    tools = [*(tool for agent in agents for tool in agent.tools), *(toolset or ())]
    topics = needed(tools, has_agents=bool(agents or toolset or whole.budgets) or runs)
    steps = asyncio.run(applied(settings, topics, dry_run=dry_run))
    if as_json:
        typer.echo(json_lines([_as_data(step, settings) for step in steps]))
        return
    table = Table("topic", "partitions", "would do" if dry_run else "done")
    for step in steps:
        count = str(step.topic.partitions or settings.partitions)
        table.add_row(step.topic.full_name(settings.topic_prefix), count, _step_text(step))
    print_table(stdout(), table)


@app.command(name="list")
def list_(*, as_json: AsJson = False, config: Config = None) -> None:
    """Show the table of topics: what is in them, for how long, who writes and who reads."""
    prefix = from_environment(config).kafka.topic_prefix
    if as_json:
        typer.echo(json_lines([_described(topic, prefix) for topic in TOPICS]))
        return
    table = Table("topic", "what is in it", show_lines=True)
    for topic in TOPICS:
        table.add_row(topic.full_name(prefix), _words(topic))
    print_table(stdout(), table)


@app.command()
def move(
    *,
    partitions: Annotated[
        int, typer.Option(min=1, max=PARTITIONS_MAX, help="The new number in use.")
    ],
    dry_run: DryRun = False,
    as_json: AsJson = False,
    config: Config = None,
) -> None:
    """Bring the deployment to another number of partitions, while no worker runs.

    Accounts, closed ids, open retries and unread requests go to the partitions that own their
    workflows from then on. Cut short, it goes on when it is run again.
    """
    from services.commands.repartitioning.move import move as moving  # noqa: PLC0415 - loads what a worker loads
    from services.worker.adapters.clock import SystemClock  # noqa: PLC0415

    settings = from_environment(config).kafka
    with stderr().status("reading") as status:
        moved = asyncio.run(
            moving(
                bus_of(settings),
                settings.worker_group,
                partitions,
                dry_run=dry_run,
                now=SystemClock().now,
                say=status.update,
            )
        )
    grown = [topic.full_name(settings.topic_prefix) for topic in moved.grown]
    if as_json:
        data = {"before": moved.before, "after": moved.after, "dry_run": dry_run, "grown": grown}
        counts = {"ledger": moved.ledger, "retries": moved.retries, "requests": moved.requests}
        typer.echo(json_lines({**data, **counts, "obstacles": moved.obstacles}))
        return
    would = "would be " if dry_run else ""
    console = stdout()
    console.print(f"from {moved.before} to {count_text(moved.after, 'partition')}")
    console.print(f"{count_text(len(grown), 'topic')} {would}given more partitions")
    console.print(f"{count_text(moved.ledger, 'entry', 'entries')} of the ledger {would}moved")
    console.print(f"{count_text(moved.retries, 'open retry', 'open retries')} {would}moved")
    console.print(f"{count_text(moved.requests, 'unread request')} {would}forwarded")
    for obstacle in moved.obstacles:
        console.print(f"Before the move: {plain(obstacle)}", markup=False)
    if not dry_run:
        console.print(f"Set `kafka.partitions` to {moved.after}, then start the workers.")


async def applied(
    settings: KafkaSettings, wanted: Sequence[Topic], *, dry_run: bool
) -> Sequence[Step]:
    """Bring the topics into shape; gives what was done. Raises SetUpError, BusUnavailable.

    With some topics of runs workers want all, as a version before did not have all of them: they
    are completed with the topics of every deployment.
    """
    bus, of_runs = bus_of(settings), RUN_TOPICS if REQUESTS in wanted else ()
    with_runs = tuple(dict.fromkeys((*wanted, *of_runs)))
    async with topics_on(bus, with_runs) as topics:
        found = await topics.look()
        wanted = with_runs if any(topic in found for topic in of_runs) else wanted
        layout = await bus.layout() if any(topic in found for topic in TOPICS) else None
        steps = plan(found, settings.partitions, layout.partitions if layout else None, wanted)
        if isinstance(steps, Refused):
            raise SetUpError(steps.reason)
        if advice := beyond(found, settings.partitions):
            stderr().print(f"{advice[0].upper()}{advice[1:]}.", markup=False)
        if not dry_run:
            await topics.carry_out(
                steps,
                partitions=settings.partitions,
                replication_factor=settings.replication_factor,
            )
        return steps


def _step_text(step: Step) -> Text:
    match step:
        case Create():
            return Text("create", "green")
        case Grow():
            return Text.assemble(("grow", "yellow"), f" from {step.found} partitions")
        case TopicChange():
            changes = (f"{diff.name} {diff.found} -> {diff.wanted}" for diff in step.differences)
            return Text.assemble(("change", "yellow"), " ", ", ".join(changes))
        case Keep():
            return Text("ok")
        case _:
            assert_never(step)


def _as_data(step: Step, settings: KafkaSettings) -> Mapping[str, object]:
    return {
        "topic": step.topic.full_name(settings.topic_prefix),
        "partitions": step.topic.partitions or settings.partitions,
        "action": {Create: "create", Grow: "grow", TopicChange: "change", Keep: "ok"}[type(step)],
        "changes": {
            diff.name: {"from": diff.found, "to": diff.wanted}
            for diff in (step.differences if isinstance(step, TopicChange) else ())
        },
    }


def _described(topic: Topic, prefix: str) -> Mapping[str, object]:
    return {
        "topic": topic.full_name(prefix),
        "summary": topic.summary,
        "events": topic.events,
        "key": topic.key,
        "writers": topic.writers,
        "readers": topic.readers,
        "record_bytes_max": topic.record_bytes_max,
        "settings": dict(topic.settings()),
    }


def _words(topic: Topic) -> Text:
    days = "" if topic.retention_ms is None else f"{topic.retention_ms // _DAY_MS} days, "
    return Text.assemble(
        topic.summary,
        (f"\n{', '.join(topic.events)}, by {topic.key}", "cyan"),
        (f"\nkept: {days}{topic.cleanup}", "dim"),
        (f"\n{', '.join(topic.writers)} -> {', '.join(topic.readers)}", "dim"),
    )

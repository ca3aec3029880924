"""`answerbus topics acls`: the rights of a role, in the formats of Kafka, Strimzi and Terraform."""

from dataclasses import asdict
from typing import Annotated

import typer

from services.command_line import AsJson, Config
from services.settings.settings import from_environment
from services.text.escaping import json_lines
from services.topics.held_rights import resource_names
from services.topics.rights.formats import AclFormat, Grantee, rendered
from services.topics.rights.roles import TOOLSET_DEFAULT, Role, rights_of

RoleOption = Annotated[Role, typer.Option("--role", help="Who gets the rights.")]
UserOption = Annotated[
    str | None, typer.Option("--user", help="As which user. Default: <prefix>-<role>.")
]
GroupOption = Annotated[
    str | None,
    typer.Option("--group", help="The group of an app's subscriptions. Default: the user's name."),
]
ToolsetOption = Annotated[str, typer.Option("--toolset", help="What a tool server serves.")]


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

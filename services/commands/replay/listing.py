"""`answerbus replay groups`, `list` and `status`: dead letters, and the actions on them."""

import asyncio
from pathlib import Path
from typing import Annotated

import typer

from answerbus.client.bus import Bus
from services.command_line import AsJson, Config, bus_of, stdout
from services.commands.replay import views
from services.commands.replay.loading import loaded_once, report_unlisted_ids
from services.commands.replay.options import (
    KEYS_HELP,
    Ids,
    Limit,
    Since,
    Statuses,
    Until,
    Where,
    keys_of,
    selection_of,
)
from services.operators.dead_letters import index
from services.operators.dead_letters.groups import BY_DEFAULT, KEYS, group
from services.operators.dead_letters.index import DeadLetterIndex
from services.operators.dead_letters.selection import Selection, select
from services.settings.settings import from_environment

By = Annotated[
    list[str] | None,
    typer.Option(
        "--by",
        metavar="KEY",
        help=f"{KEYS_HELP}; repeatable. Default: {', '.join(BY_DEFAULT)}.",
        autocompletion=lambda: KEYS,
    ),
]


def groups(
    *,
    by: By = None,
    where: Where = None,
    since: Since = None,
    until: Until = None,
    status: Statuses = None,
    as_json: AsJson = False,
    config: Config = None,
) -> None:
    """Count dead letters by what they have in common."""
    keys = keys_of(by or BY_DEFAULT)
    selection = selection_of(where, None, since, until, None, status)
    models = selection.needs_models or any(key.kind == "model" for key in keys)
    dead_letters = asyncio.run(loaded_once(_bus(config), models=models))
    found = group(selection.of(dead_letters), keys)
    if as_json:
        views.print_json([views.group_data(one, keys) for one in found])
        return
    stdout().print(*views.groups_lines(found, keys), sep="\n")
    views.print_undecodable(dead_letters)


def list_(
    *,
    where: Where = None,
    ids: Ids = None,
    since: Since = None,
    until: Until = None,
    limit: Limit = None,
    status: Statuses = None,
    as_json: AsJson = False,
    config: Config = None,
) -> None:
    """List dead letters, oldest first."""
    selection = selection_of(where, ids, since, until, limit, status)
    dead_letters = _dead_letters(config, selection)
    chosen = select(dead_letters, selection)
    if as_json:
        views.print_json(
            [
                views.dead_letter_data(dead_letter, dead_letters.replay_outcome(dead_letter))
                for dead_letter in chosen
            ]
        )
    else:
        stdout().print(*views.dead_letter_lines(chosen, dead_letters), sep="\n")
        views.print_undecodable(dead_letters)
    report_unlisted_ids(dead_letters, selection)


def status(
    *,
    where: Where = None,
    ids: Ids = None,
    since: Since = None,
    until: Until = None,
    as_json: AsJson = False,
    config: Config = None,
) -> None:
    """Say how many dead letters are open, and what came of those that were replayed."""
    any_status = ["open", "replayed", "dismissed"]
    selection = selection_of(where, ids, since, until, None, any_status)
    dead_letters = _dead_letters(config, selection)
    data = views.status_data(select(dead_letters, selection), dead_letters)
    if as_json:
        views.print_json(data)
    else:
        stdout().print(views.status_table(data))
        for line in views.dead_again_lines(data):
            stdout().print(line)
        views.print_undecodable(dead_letters)
    report_unlisted_ids(dead_letters, selection)


def _dead_letters(config: Path | None, selection: Selection) -> DeadLetterIndex:
    bus = _bus(config)
    return asyncio.run(loaded_once(bus, index.TOPICS, models=selection.needs_models))


def _bus(config: Path | None) -> Bus:
    return bus_of(from_environment(config).kafka)

"""`answerbus play`: plays recorded workflows with today's agents and contracts, without Kafka."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from answerbus.cassette import CASSETTE_BYTES_MAX, CassetteFault, RecordedRequest, read_cassette
from answerbus.private.runs import AgentDefinition
from answerbus.registry import Registry
from services.command_line import Config, content_of, stderr, stdout
from services.settings import plugins
from services.settings.settings import from_environment
from services.text.escaping import plain
from services.worker.adapters.agents import known_agents
from services.worker.core.run.agents import Agents
from services.worker.planning.played_requests import changes_of

EXIT_CHANGED = 1

Files = Annotated[list[Path], typer.Argument(metavar="FILE…", help="What `record` has written.")]


def play(files: Files, *, config: Config = None) -> None:
    """Play recorded workflows with today's agents and contracts. Exit code 1: one differs.

    Each prompt is built again, and each answer read again. Agents are those of the
    settings, with the tools that the recorded run was given.
    """
    agents, registry = known_agents(from_environment(config).agents), plugins.registry()
    count, changes = 0, []
    for path in files:
        requests = _requests(path)
        count += len(requests)
        changes += [f"{path}: {change}" for change in played(requests, agents, registry)]
    for change in changes:
        stderr().print(plain(change), markup=False)
    stdout().print(f"Requests played: {count:,}. Differences: {len(changes):,}.")
    if changes:
        raise typer.Exit(EXIT_CHANGED)


def played(
    requests: tuple[RecordedRequest, ...], agents: Agents, registry: Registry
) -> Iterator[str]:
    """The differences of requests from what was recorded, one text each."""
    for recorded in requests:
        for change in changes_of(recorded, _present(recorded, agents), registry):
            yield f"{recorded.request.request_id}, {change}"


def _present(recorded: RecordedRequest, agents: Agents) -> AgentDefinition | None:
    """The agent's present definition; None if it has none, or if a tool was not recorded."""
    asked, was = recorded.request.agent, recorded.definition
    if asked is None or was is None:
        return None
    frozen = agents.freeze(asked, {tool.name: tool for tool in was.tools})
    return frozen if isinstance(frozen, AgentDefinition) else None


def _requests(path: Path) -> tuple[RecordedRequest, ...]:
    found = read_cassette(content_of(path, CASSETTE_BYTES_MAX + 1))
    if isinstance(found, CassetteFault):
        raise typer.BadParameter(f"{path} is not a playable cassette: {found.text}")
    return found.requests

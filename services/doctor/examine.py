"""Makes all checks in order; a failed check does not stop the others."""

from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path

from aiokafka.errors import GroupAuthorizationFailedError, TopicAuthorizationFailedError

from answerbus.client.errors import BusUnavailable
from answerbus.topics import RETRIES, TOPICS, Topic
from services.command_line import bus_of
from services.doctor import broker, machine, workers
from services.doctor.findings.finding import Finding
from services.doctor.findings.judge import findings
from services.doctor.findings.rights import rights_findings
from services.doctor.trial import tried
from services.settings import plugins
from services.settings.agents import AgentError, AgentSettings, of_distributions, unknown_names
from services.settings.profiles import Profile
from services.settings.settings import (
    KafkaSettings,
    Settings,
    SetUpError,
    file_of,
    from_environment,
)
from services.settings.worker import card_advice
from services.topics.held_rights import held_rights, resource_names
from services.topics.planning.plan import needed
from services.topics.rights.roles import TOOLSET_DEFAULT, Role, rights_of
from services.worker.adapters.clock import SystemClock
from services.worker.profile_check import checked

_NO_RIGHT = (GroupAuthorizationFailedError, TopicAuthorizationFailedError)
_OTHER_ROLES = (
    " The whole doctor needs the rights of a worker; `answerbus doctor --as ROLE` looks only at "
    "those of a user's own role."
)


async def examined(config: Path | None) -> AsyncIterator[Finding]:
    """The findings as they come."""
    yield machine.libraries()
    yield _contracts()
    try:
        settings = from_environment(config)
    except SetUpError as error:
        yield Finding("settings", "wrong", str(error))
        return
    yield _settings(settings, file_of(config))
    yield machine.open_files(settings.worker)
    yield _drain(settings)
    for sentence in card_advice(settings.worker):
        yield Finding("tools", "warning", sentence)
    agents, fault = _agents(settings)
    if fault:
        yield fault
    if unknown := list(unknown_names(agents, settings.profiles)):
        yield Finding("agents", "warning", "; ".join(unknown))
    tools = [tool for agent in agents.values() for tool in agent.tools]
    of_runs = needed(tools, has_agents=bool(agents))[len(TOPICS) :]
    async for finding in _broker(settings.kafka, of_runs):
        yield finding
    async for finding in workers.lanes(settings):
        yield finding
    async for finding in _profiles(settings.profiles):
        yield finding


async def examined_as(
    role: Role, group: str | None, config: Path | None, toolset: str = TOOLSET_DEFAULT
) -> AsyncIterator[Finding]:
    """Whether our user may do what a role does.

    `group` is that of an app's subscriptions, `toolset` what a tool server serves.
    """
    try:
        kafka = from_environment(config).kafka
        names = resource_names(kafka, group or f"{kafka.topic_prefix}-{role}", toolset)
        held = await held_rights(bus_of(kafka), rights_of(role, names))
    except (BusUnavailable, SetUpError) as error:
        yield Finding("broker", "wrong", str(error))
        return
    yield Finding("broker", "ok", f"Kafka at {kafka.bootstrap_servers} answers")
    for finding in rights_findings(role, held, toolset):
        yield finding


def _settings(settings: Settings, file: Path) -> Finding:
    origin = f"{file} and variables" if file.exists() else f"variables alone, no {file}"
    count = "1 profile" if len(settings.profiles) == 1 else f"{len(settings.profiles)} profiles"
    return Finding("settings", "ok", f"from {origin}, {count}")


def _drain(settings: Settings) -> Finding:
    if settings.drain_advice:
        return Finding("drain", "warning", "; ".join(settings.drain_advice))
    text = (
        f"a worker that leaves ends its calls within {settings.drain_s:g} s, and none may take "
        f"longer than {settings.longest_call_s:g} s"
    )
    return Finding("drain", "ok", text)


def _contracts() -> Finding:
    try:
        count = len(list(plugins.registry()))
    except SetUpError as error:
        return Finding("contracts", "wrong", str(error))
    return Finding("contracts", "ok", f"{count}, with those of plugins")


def _agents(settings: Settings) -> tuple[Mapping[str, AgentSettings], Finding | None]:
    """Those of the settings and of distributions; and what is wrong with the latter."""
    try:
        return {**of_distributions(), **settings.agents}, None
    except AgentError as error:
        return settings.agents, Finding("agents", "wrong", str(error))


async def _broker(settings: KafkaSettings, run_topics: Sequence[Topic]) -> AsyncIterator[Finding]:
    try:
        bus, now = bus_of(settings), SystemClock().now
        look = await broker.inspect_broker(bus, settings.worker_group, now, run_topics)
    except (BusUnavailable, SetUpError) as error:
        yield _unusable(error)
        return
    yield Finding("broker", "ok", f"Kafka at {settings.bootstrap_servers} answers")
    for finding in findings(look, settings):
        yield finding
    if RETRIES in look.topics:
        yield await tried(bus)


def _unusable(error: BusUnavailable | SetUpError) -> Finding:
    """What was refused to an app is no fault of the set-up."""
    advice = _OTHER_ROLES if isinstance(error.__cause__, _NO_RIGHT) else ""
    return Finding("broker", "wrong", f"{error}{advice}")


async def _profiles(profiles: Mapping[str, Profile]) -> AsyncIterator[Finding]:
    if not profiles:
        text = "none is configured: add a table [profiles.default] that names provider and model"
        yield Finding("profiles", "wrong", text)
    for name, profile in profiles.items():
        found = await checked(name, profile)
        about, prefix = f"profile {name}", f"Profile `{name}`: "
        if found.fault:
            yield Finding(about, "wrong", found.fault.removeprefix(prefix))
        elif found.advice:
            yield Finding(about, "warning", found.advice.removeprefix(prefix))
        else:
            yield Finding(about, "ok", f"{profile.model} of {profile.provider} can be asked")

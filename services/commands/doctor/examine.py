"""Makes all checks in order; a failed check does not stop the others."""

import resource
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from datetime import date, datetime, timedelta
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import Any

from aiokafka.errors import GroupAuthorizationFailedError, TopicAuthorizationFailedError
from packaging.requirements import Requirement

from answerbus.client.bus import Bus
from answerbus.client.errors import BusUnavailable
from answerbus.envelope import ReceivedRequest, decode_request
from answerbus.topics import REQUESTS, RETRIES, TOPICS, Topic
from services.command_line import bus_of
from services.commands.doctor import broker
from services.commands.doctor.broker import tried
from services.commands.doctor.findings.facts import Finding
from services.commands.doctor.findings.judge import accounts_finding, findings, rights_findings
from services.commands.doctor.findings.price_list import price_list_finding
from services.commands.doctor.findings.prompt_caches import PromptCaches
from services.commands.doctor.findings.unpriced import budgets_finding
from services.console.tasks.polling import workers_at
from services.kafka.held_rights import held_rights, resource_names
from services.kafka.planning.plan import needed
from services.kafka.planning.rights import TOOLSET_DEFAULT, Role, rights_of
from services.operators.adapters.reader import reading
from services.settings import plugins
from services.settings.agents import AgentError, AgentSettings, installed_agents, unknown_names
from services.settings.profiles import Profile
from services.settings.settings import (
    Settings,
    SetUpError,
    file_of,
    from_environment,
)
from services.settings.worker import WorkerSettings, card_advice
from services.text.counted import count_text
from services.worker.adapters.clock import SystemClock
from services.worker.adapters.profile_check import checked
from services.worker.adapters.tariffs import has_listed_price, prices_checked, tariff_of

_NO_RIGHT = (GroupAuthorizationFailedError, TopicAuthorizationFailedError)
_OTHER_ROLES = (
    " The whole doctor needs the rights of a worker; `answerbus doctor --as ROLE` looks only at "
    "those of a user's own role."
)
DISTRIBUTIONS = ("answerbus", "answerbus-services")
SHOWN = ("aiokafka", "faststream", "pydantic", "jsonschema-rs")
REQUESTS_READ_MAX = 200  # they take up to 20 ms each
RECENT = timedelta(hours=1)  # whose requests say what repeats
FILES_BESIDE_CALLS = 200  # connections to brokers, logs, libraries
_MISSING = "unknown"
_DIGEST_SHOWN = 19  # characters: enough to be unique


async def examined(config: Path | None) -> AsyncIterator[Finding]:
    """The findings as they come."""
    yield libraries()
    yield _contracts()
    try:
        settings = from_environment(config)
    except SetUpError as error:
        yield Finding("settings", "wrong", str(error))
        return
    yield _settings(settings, file_of(config))
    yield _open_files(settings.worker)
    yield _drain(settings)
    for sentence in card_advice(settings.worker):
        yield Finding("tools", "warning", sentence)
    agents, fault = _agents(settings)
    if fault:
        yield fault
    if unknown := list(unknown_names(agents, settings.profiles)):
        yield Finding("agents", "warning", "; ".join(unknown))
    tools = [tool for agent in agents.values() for tool in agent.tools]
    of_runs = needed(tools, has_agents=bool(agents or settings.budgets))[len(TOPICS) :]
    async for finding in _broker(settings, of_runs):
        yield finding
    async for finding in _worker_lanes(settings):
        yield finding
    async for finding in _profiles(settings.profiles):
        yield finding
    now = SystemClock().now()
    if of_prices := _prices(settings.profiles, now.date()):
        yield of_prices
    unpriced = [name for name, one in settings.profiles.items() if tariff_of(one, now) is None]
    if of_budgets := budgets_finding(settings.budgets, settings.agents, unpriced):
        yield of_budgets


async def examined_as(
    role: Role, group: str | None, config: Path | None, toolset: str = TOOLSET_DEFAULT
) -> AsyncIterator[Finding]:
    """Whether our user may do what a role does.

    `group` is that of an app's subscriptions, `toolset` what a tool server serves.
    """
    try:
        settings = from_environment(config)
        kafka = settings.kafka
        names = resource_names(kafka, group or f"{kafka.topic_prefix}-{role}", toolset)
        needs_runs = role == "worker" and bool(_agents(settings)[0] or settings.budgets)
        rights = rights_of(role, names, needs_runs=needs_runs)
        held = await held_rights(bus_of(kafka), rights)
    except (BusUnavailable, SetUpError) as error:
        yield Finding("broker", "wrong", str(error))
        return
    yield Finding("broker", "ok", f"Kafka at {kafka.bootstrap_servers} answers")
    for finding in rights_findings(role, held, toolset):
        yield finding


def _settings(settings: Settings, file: Path) -> Finding:
    origin = f"{file} and variables" if file.exists() else f"variables alone, no {file}"
    return Finding(
        "settings", "ok", f"from {origin}, {count_text(len(settings.profiles), 'profile')}"
    )


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
        return {**installed_agents(), **settings.agents}, None
    except AgentError as error:
        return settings.agents, Finding("agents", "wrong", str(error))


async def _broker(whole: Settings, run_topics: Sequence[Topic]) -> AsyncIterator[Finding]:
    settings = whole.kafka
    try:
        bus, now = bus_of(settings), SystemClock().now
        look = await broker.inspect_broker(bus, settings.worker_group, now, run_topics)
    except (BusUnavailable, SetUpError) as error:
        yield _unusable(error)
        return
    yield Finding("broker", "ok", f"Kafka at {settings.bootstrap_servers} answers")
    for finding in findings(look, settings):
        yield finding
    if look.group:
        yield accounts_finding(look.group.requests_per_s, whole.accounts.remember_s)
    if RETRIES in look.topics:
        yield await tried(bus)
        async for finding in _prompt_caches(bus, now()):
            yield finding


async def _prompt_caches(bus: Bus, now: datetime) -> AsyncIterator[Finding]:
    caches, left = PromptCaches(), REQUESTS_READ_MAX
    async with reading(bus, (REQUESTS,), since=now - RECENT) as reader:
        async for batch in reader.to_end():
            for stored in batch[:left]:
                received = decode_request(stored.value or b"")
                if isinstance(received, ReceivedRequest):
                    caches.take(received.request)
            left -= len(batch)
            if left <= 0:
                break
    for finding in caches.findings():
        yield finding


def _unusable(error: BusUnavailable | SetUpError) -> Finding:
    """A right refused to an app is not a fault of the set-up."""
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


def _prices(profiles: Mapping[str, Profile], today: date) -> Finding | None:
    """How old the list is that prices of profiles come from; None where none does."""
    if not any(has_listed_price(profile) for profile in profiles.values()):
        return None
    return price_list_finding(prices_checked(), today)


def libraries() -> Finding:
    """Whether what is installed is what we were built against."""
    faults = [fault for name in DISTRIBUTIONS for fault in _missing_dependencies(name)]
    if faults:
        return Finding("libraries", "wrong", f"{'; '.join(faults)}: install answerbus again")
    message = ", ".join(f"{name} {version(name)}" for name in SHOWN)
    return Finding("libraries", "ok", f"as required ({message})")


def _missing_dependencies(distribution: str) -> Iterator[str]:
    try:
        required = requires(distribution) or ()
    except PackageNotFoundError:
        yield f"{distribution} is missing"
        return
    for line in required:
        requirement = Requirement(line)
        if requirement.marker and not requirement.marker.evaluate({"extra": ""}):
            continue
        try:
            found = version(requirement.name)
        except PackageNotFoundError:
            yield f"{requirement.name} is missing"
            continue
        if not requirement.specifier.contains(found, prereleases=True):
            yield f"{requirement.name} is {found} and should be {requirement.specifier}"


def _open_files(worker: WorkerSettings) -> Finding:
    """Whether each call in flight may have its connection."""
    most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return judged_files(most, worker.max_in_flight + FILES_BESIDE_CALLS)


def judged_files(most: int, needed: int) -> Finding:
    """`most` as the system says it: -1 is no limit."""
    if 0 <= most < needed:
        text = (
            f"{most:,} may be open at once, and `worker.max_in_flight` may need {needed:,}: raise "
            "the limit (`ulimit -n`), or lower the setting"
        )
        return Finding("files", "warning", text)
    limit = "without limit" if most < 0 else f"{most:,}"
    return Finding("files", "ok", f"{limit} may be open at once, {needed:,} may be needed")


async def _worker_lanes(settings: Settings) -> AsyncIterator[Finding]:
    """One line for each worker whose lanes are not all well, and for each agent in dispute.

    Most workers are not to be asked from here.
    """
    digests: dict[str, dict[str, str]] = {}
    for worker in await workers_at(addresses(settings)):
        if worker.body is None:
            continue
        if text := reason_of(worker.body):
            yield Finding("lanes", "warning", f"the worker at {worker.address}: {text}")
        agents = worker.body.get("agents")
        if isinstance(agents, dict):
            found = {str(name): str(digest) for name, digest in agents.items()}
            digests[worker.address] = found
    for text in disagreements(digests):
        yield Finding("agents", "warning", text)


def disagreements(digests: Mapping[str, Mapping[str, str]]) -> Iterator[str]:
    """The agents whose definition is not the same at all workers, and at which it is which."""
    for name in sorted({name for agents in digests.values() for name in agents}):
        places: dict[str, list[str]] = {}
        for address, agents in digests.items():
            places.setdefault(agents.get(name, _MISSING), []).append(address)
        if len(places) > 1:
            shown = "; ".join(
                f"{digest[:_DIGEST_SHOWN]} at {', '.join(found)}"
                for digest, found in sorted(places.items())
            )
            yield (
                f"workers disagree on the agent {name}: {shown}. A run has the definition of the "
                "worker that begins it: give all workers the same settings, or the new definition "
                "another `version`"
            )


def addresses(settings: Settings) -> list[str]:
    """The worker of this machine, and those that the console asks."""
    here = settings.worker.health
    own = [] if here.endswith(":0") else [f"http://{here}"]
    return list(dict.fromkeys([*own, *settings.console.workers]))


def reason_of(body: Mapping[str, Any]) -> str | None:
    """Which lanes are not open, how far they are, and what keeps them."""
    reasons, stuck = body.get("reasons"), body.get("stuck")
    texts = [str(reason) for reason in reasons] if isinstance(reasons, list) else []
    if isinstance(stuck, dict):
        texts += [f"lane {lane}: {why}" for lane, why in stuck.items()]
    return "; ".join(texts) or None

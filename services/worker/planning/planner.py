"""Makes a request's plan: its profile, its schema, and the schema in the profile's dialect."""

from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from answerbus.cause import MissingTools, UnknownAgent
from answerbus.client.turns import in_turns
from answerbus.dead_letter import (
    Cause,
    HostileSchema,
    RequestTooLarge,
    RunExhausted,
    UnknownProfile,
    UnsupportedSchema,
)
from answerbus.failure import Problem
from answerbus.limits import ENVELOPE_EXTRA_BYTES_MAX, RECORD_BYTES_MAX
from answerbus.private.runs import AgentDefinition
from answerbus.registry import Registry
from answerbus.request import ContractRef, Request, TextRef
from services.worker.core.attempt.counted_input import counted_input
from services.worker.core.attempt.fallback import (
    HEALTHY,
    Failed,
    Fallback,
    FallbackRule,
    Hop,
    ProfileHealth,
)
from services.worker.core.attempt.plan import Plan, ProfileFacts
from services.worker.core.attempt.turns import shown
from services.worker.core.limits.group_share import GroupShare
from services.worker.core.run.agents import Agents, Tools
from services.worker.core.run.new_run import new_run
from services.worker.core.run.next_step import next_step_request, transcript_of_run
from services.worker.core.run.proposing import wrong_form
from services.worker.core.run.repeats import must_finish
from services.worker.core.run.run import Run
from services.worker.core.run.transcript import write_messages
from services.worker.core.schema.resolved import ResolvedSchema, Unusable
from services.worker.dialects.dispatch import DialectName
from services.worker.dialects.schema_cache import Compiled, SchemaCache, compiled_for
from services.worker.limits.profile_limiter import ProfileLimiter
from services.worker.planning.kept_prompts import KeptPrompt, KeptPrompts
from services.worker.planning.schema_compiler import TOO_COSTLY, SchemaCompiler, is_small
from services.worker.planning.step_schemas import StepSchema
from services.worker.ports.costly_work import CostlyWork, InPlace
from services.worker.ports.provider import Provider

ANY_SCHEMA_DIALECT: DialectName = "prompted"  # which takes each schema
RUN_BYTES_MAX = RECORD_BYTES_MAX - ENVELOPE_EXTRA_BYTES_MAX  # of what the record of a run holds

CatchUp = Callable[[], Awaitable[object]]


def _problem_of_agent(found: UnknownAgent | MissingTools) -> Problem:
    return Problem.of("/agent", found.kind, "an agent whose tools are there")


def _problem_of_form(request: Request, definition: AgentDefinition) -> Problem | None:
    """Its agent answers in another form than the one that is asked for."""
    composition = definition.composition
    problem = wrong_form(request, composition) if composition else None
    if problem is None:
        return None
    return Problem.of(
        "/agent", problem.code, f"another agent: this one answers by {problem.expected}"
    )


def _problem_of_plan(cause: Cause) -> tuple[Problem, ...]:
    """Its schema or its profile cannot be used."""
    match cause:
        case HostileSchema(problems=problems) | UnsupportedSchema(problems=problems):
            whole = Problem.of("", "schema", "a JSON Schema that can be asked for")
            return tuple(one.under("/json_schema") for one in problems or (whole,))
        case _:
            return (Problem.of("/profile", cause.kind, "a profile that there is"),)


def _problem_of_step(cause: Cause) -> Problem:
    """Its schema can be asked for, but not beside the tools of its agent."""
    expected = "a smaller JSON Schema, or an agent with fewer tools"
    match cause:
        case HostileSchema(problems=(first, *_)) | UnsupportedSchema(problems=(first, *_)):
            expected = f"{expected}: together {first.expected}"
        case _:
            pass
    return Problem.of("/json_schema", cause.kind, expected)


async def _has_caught_up() -> None:
    """Nothing is announced where no cards are read."""


@dataclass(frozen=True, slots=True)
class Backend:
    """A profile that is ready to be used."""

    facts: ProfileFacts
    dialect: DialectName
    provider: Provider
    limiter: ProfileLimiter


@dataclass(frozen=True, slots=True)
class BackendChange:
    """Backends by profile that take the place of others, or are new; and the profiles that go.

    `alike` are the profiles whose provider is asked as before: what is known of it still holds.
    """

    backends: Mapping[str, Backend]
    alike: Collection[str] = ()
    gone: Collection[str] = ()


class Planner:
    """Answers, for a request, how it will be asked, or why it cannot be."""

    def __init__(
        self,
        backends: Mapping[str, Backend],
        registry: Registry,
        prompt_secret: bytes = b"",
        agents: Agents | None = None,
        tools: Tools | None = None,
        costly_work: CostlyWork | None = None,
    ) -> None:
        """`prompt_secret` is the deployment's, for the marks around data in prompts.

        `tools` are what tool servers have announced by now; they change. `catch_up` waits until all
        that was announced before it is called is among them. `costly_work` compiles what
        may take long: the schemas of an agent with many tools, and large ones of requests.
        """
        self.backends = backends
        self.agents = agents or Agents()
        self._kept_prompts = KeptPrompts()
        self._share: GroupShare | None = None
        self.tools: Tools = {} if tools is None else tools
        self.catch_up: CatchUp = _has_caught_up
        self._prompt_secret = prompt_secret
        self._schemas = SchemaCache(registry)
        self.costly_work = costly_work or InPlace()
        self._compiler = SchemaCompiler(self._schemas, self.costly_work)

    def unavailable(self, profiles: Iterable[str]) -> Collection[str]:
        """Those of `profiles` whose provider is left alone, while another one is not; else none.

        That of its fallback, where there is one for that.
        """
        unavailable = [name for name in profiles if self._is_paused(self.asked(name))]
        return () if not unavailable or all(map(self._is_paused, self.backends)) else unavailable

    def asked(self, profile: str, failed: Failed = ()) -> str:
        """The one that is asked next in place of a profile: itself, or one of its fallbacks."""
        hops = self.hops(profile, failed)
        return hops[-1].profile if hops else profile

    def fallbacks_of(self, profile: str) -> Sequence[Fallback]:
        """Those who may be asked in its place."""
        backend = self.backends.get(profile)
        return backend.facts.fallbacks if backend else ()

    def hops(
        self, first: str, failed: Failed = (), left_out: Collection[Hop] = ()
    ) -> tuple[Hop, ...]:
        """The profile to ask next in place of `first` (see FallbackRule)."""
        if not self.fallbacks_of(first):
            return ()
        return FallbackRule(self.fallbacks_of, self._health, failed, left_out).hops_from(first)

    def fallback_advice(self) -> Iterator[str]:
        """In a sentence each, the contracts that a fallback cannot be asked for."""
        for name, backend in self.backends.items():
            for fallback in backend.facts.fallbacks:
                dialect = self.backends[fallback.profile].dialect
                for contract in self._schemas.registry if dialect != backend.dialect else ():
                    ref = ContractRef(name=contract.name, version=contract.version)
                    if isinstance(self._schemas.compiled(ref, dialect), Unusable):
                        yield (
                            f"profile `{fallback.profile}` is not asked for {contract.name} in "
                            f"place of `{name}`: its dialect {dialect} cannot carry that schema"
                        )

    def _health(self, profile: str) -> ProfileHealth:
        backend = self.backends.get(profile)
        return backend.limiter.health if backend else HEALTHY

    def _is_paused(self, name: str) -> bool:
        return name in self.backends and self.backends[name].limiter.breaker.is_open

    def share_out(self, share: GroupShare) -> None:
        """Give each profile this worker's part of what its limits allow the group."""
        self._share = share
        for backend in self.backends.values():
            backend.limiter.share_out(share)

    def change(self, change: BackendChange, agents: Agents) -> list[Backend]:
        """Plan with others from now on; gives the backends that no new call has.

        A profile keeps its limiter, with the calls and requests that it knows of: its limits hold
        over the change.
        """
        ended = {*change.backends, *change.gone} & self.backends.keys()
        former = [self.backends[name] for name in sorted(ended)]
        before = {name: self.fallbacks_of(name) for name in self.backends}
        found = {name: one for name, one in self.backends.items() if name not in change.gone}
        for name, backend in change.backends.items():
            if name in found:
                limiter = found[name].limiter
                limiter.become(backend.limiter, keeps_learnt=name in change.alike)
                found[name] = replace(backend, limiter=limiter)
            else:
                found[name] = backend
        gone = [one.limiter for name, one in self.backends.items() if name not in found]
        self.backends, self.agents = found, agents
        for limiter in gone:
            limiter.plan_again(all_waiting=True)  # to end: no place there is worth the wait
        if self._share:
            self.share_out(self._share)
        changed = {name for name, known in before.items() if self.fallbacks_of(name) != known}
        for name, backend in found.items() if changed else ():
            backend.limiter.plan_again(all_waiting=name in changed)
        return former

    def backend_of(self, plan: Plan) -> Backend | None:
        """Whom a plan is for; None if its profile was changed since it was made.

        So is one whose profile is no fallback any more.
        """
        backend = self.backends.get(plan.profile.name)
        is_current = backend is not None and backend.facts is plan.profile
        return backend if is_current and all(map(self._may_be_taken, plan.hops)) else None

    def _may_be_taken(self, hop: Hop) -> bool:
        there = self.fallbacks_of(hop.instead_of)
        return any(hop.profile == one.profile and hop.because in one.on for one in there)

    def plan(self, request: Request, prepared: Compiled | None = None) -> Plan | Cause:
        """Nothing is spent here, and hostile schemas end here."""
        backend = self.backends.get(request.profile)
        if backend is None:
            return UnknownProfile()
        return self._planned(backend, prepared or self._at_once(request, backend.dialect))

    async def prepare(self, request: Request) -> Compiled | None:
        """Compile the schema of a request where that holds no loop, before `plan` needs it."""
        backend = self.backends.get(request.profile)
        return None if backend is None else await self._compiled(request, backend.dialect)

    async def _compiled(self, request: Request, dialect: DialectName) -> Compiled:
        text, resolved = self._schemas.reading(request.answer_schema)
        if is_small(request.answer_schema, text):
            return self._schemas.kept(text, resolved, dialect)
        return await self._compiler.compiled(text, resolved, dialect, request.workflow_id)

    def _at_once(self, request: Request, dialect: DialectName) -> Compiled:
        """What is kept, or is compiled soon."""
        text, resolved = self._schemas.reading(request.answer_schema)
        if is_small(request.answer_schema, text):
            return self._schemas.kept(text, resolved, dialect)
        return self._schemas.find(text, dialect) or TOO_COSTLY

    def _planned(
        self, backend: Backend, compiled: Compiled, step: Request | None = None
    ) -> Plan | Cause:
        if isinstance(compiled, Unusable):
            return compiled.cause
        return Plan(backend.facts, *compiled, self._prompt_secret, step)

    async def resolved(self, request: Request) -> ResolvedSchema | Unusable:
        """The authority on the answer to a request, also where its profile cannot be asked."""
        found = await self.prepare(request)
        if not isinstance(found, tuple):
            found = await self._compiled(request, ANY_SCHEMA_DIALECT)
        return found[0] if isinstance(found, tuple) else found

    def room_of(self, profile: str) -> int | None:
        """How many tokens a prompt for it may have; None where that is not limited, or known."""
        backend = self.backends.get(profile)
        return backend.facts.input_tokens if backend else None

    def plan_as(
        self, step: Request, resolved: Callable[[], ResolvedSchema | Unusable], profile: str
    ) -> Plan | Cause:
        """How a step is asked of a profile with a schema of its own; nothing comes after it."""
        if (backend := self.backends.get(profile)) is None:
            return UnknownProfile()
        return self._planned(backend, compiled_for(resolved, backend.dialect), step)

    def problems_of(self, request: Request) -> tuple[Problem, ...]:
        """Why a child cannot be asked, in words for the model that wants it; empty if it can."""
        definition = self.agents.freeze(request.agent, self.tools) if request.agent else None
        if isinstance(definition, UnknownAgent | MissingTools):
            return (_problem_of_agent(definition),)
        plan = self.plan(request)
        if not isinstance(plan, Plan):
            return _problem_of_plan(plan)
        if definition is None:
            return ()
        if problem := _problem_of_form(request, definition):
            return (problem,)
        dialect = self.backends[request.profile].dialect
        text = StepSchema.first(definition, request).text
        step = self._schemas.find(text, dialect) or TOO_COSTLY
        return (_problem_of_step(step.cause),) if isinstance(step, Unusable) else ()

    async def look_ahead(self, request: Request) -> None:
        """Do apart from the loop what `problems_of` would take time for."""
        backend = self.backends.get(request.profile)  # which a reload may remove meanwhile
        found = await self.prepare(request)
        definition = self.agents.freeze(request.agent, self.tools) if request.agent else None
        if backend and isinstance(definition, AgentDefinition) and isinstance(found, tuple):
            step = StepSchema.first(definition, request)
            await self._step_compiled(step, backend.dialect, request.workflow_id)

    def begin_run(self, request: Request) -> Run | Cause:
        """A run of the agent that a request names, with the definition that it keeps."""
        if request.agent is None:
            raise ValueError("a request that an agent works on names it")
        definition = self.agents.freeze(request.agent, self.tools)
        if not isinstance(definition, AgentDefinition):
            return definition
        texts = request.model_dump_json(), definition.model_dump_json()
        is_too_large = sum(len(text.encode()) for text in texts) > RUN_BYTES_MAX
        return RequestTooLarge() if is_too_large else new_run(definition, request)

    async def plan_step(self, request: Request, run: Run, *, is_last_attempt: bool) -> Plan | Cause:
        """How the next step of a run is asked; a run that cannot make another must finish."""
        backend = self.backends.get(request.profile)
        if backend is None:
            return UnknownProfile()
        finishes = is_last_attempt or must_finish(run)
        wanted = StepSchema.after(run, request, finishes=finishes)
        compiled = await self._step_compiled(wanted, backend.dialect, request.workflow_id)
        if isinstance(compiled, Unusable):
            return compiled.cause
        schema, wire = compiled
        kept = self._kept_prompts.of(request)
        async for _ in in_turns(write_messages(run, kept.steps)):
            pass  # what is new takes milliseconds for each result
        transcript = transcript_of_run(request, run, backend.facts.input_tokens, kept.draft)
        if run.steps and not transcript.fits:
            return RunExhausted(which="transcript")
        step = next_step_request(request, run, transcript, must_finish=finishes)
        own = shown(step, self._prompt_secret, kept.shown)
        self._kept_prompts.keep(request, KeptPrompt(transcript.draft, own))
        return Plan(
            backend.facts,
            schema,
            wire,
            self._prompt_secret,
            step,
            not finishes,
            counted_input(request, run, transcript, step, backend.facts.model_id),
            shown=own,
        )

    async def prepare_agents(self) -> None:
        """Compile what the agents may do next, in each dialect, before they are asked."""
        for ref in self.agents.refs():
            definition = self.agents.freeze(ref, self.tools)
            if not isinstance(definition, AgentDefinition):
                continue  # a tool is not announced yet
            for dialect in sorted({backend.dialect for backend in self.backends.values()}):
                for schema in _steps_of(definition):
                    await self._step_compiled(schema, dialect, ref.name)

    async def _step_compiled(
        self, schema: StepSchema, dialect: DialectName, owner: str
    ) -> Compiled:
        return await self._compiler.compiled(
            schema.text, partial(schema.resolved, self._schemas.registry), dialect, owner
        )


def _steps_of(definition: AgentDefinition) -> Iterator[StepSchema]:
    """The schemas that steps of its runs may have, where they answer with a text."""
    delegates = definition.delegate is not None
    for uses in (False, True) if delegates else (False,):
        yield StepSchema.of(definition, TextRef(), finishes=False, delegates=delegates, uses=uses)
    yield StepSchema.of(definition, TextRef(), finishes=True, delegates=False, uses=False)

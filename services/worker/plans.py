"""From a request to a plan: its profile, its schema, and that schema in the profile's dialect."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from answerbus.dead_letter import Cause, UnknownAgent, UnknownParent, UnknownProfile
from answerbus.registry import Registry
from answerbus.request import Request
from services.worker.core.attempt.plan import Plan, ProfileFacts
from services.worker.core.schema.resolved import Unusable
from services.worker.dialects.dispatch import DialectName
from services.worker.dialects.schema_cache import SchemaCache
from services.worker.limits.profile_limiter import ProfileLimiter
from services.worker.ports import Provider


@dataclass(frozen=True, slots=True)
class Backend:
    """A profile that is ready to be used."""

    facts: ProfileFacts
    dialect: DialectName
    provider: Provider
    limiter: ProfileLimiter


class Planner:
    """Answers, for a request, how it will be asked, or why it cannot be."""

    def __init__(
        self, backends: Mapping[str, Backend], registry: Registry, prompt_secret: bytes = b""
    ) -> None:
        """`prompt_secret` is the deployment's, for the marks around data in prompts."""
        self.backends = backends
        self._prompt_secret = prompt_secret
        self._schemas = SchemaCache(registry)

    def unavailable(self, profiles: Iterable[str]) -> Collection[str]:
        """Those of `profiles` whose provider is left alone, while another one is not; else none."""
        unavailable = [name for name in profiles if self._is_paused(name)]
        return () if not unavailable or all(map(self._is_paused, self.backends)) else unavailable

    def _is_paused(self, name: str) -> bool:
        return name in self.backends and self.backends[name].limiter.breaker.is_open

    def plan(self, request: Request) -> Plan | Cause:
        """Nothing is spent here, and hostile schemas end here."""
        if request.parent is not None:
            return UnknownParent()  # no run asks for children yet
        if request.agent is not None:
            return UnknownAgent()
        backend = self.backends.get(request.profile)
        if backend is None:
            return UnknownProfile()
        compiled = self._schemas.compiled(request.answer_schema, backend.dialect)
        if isinstance(compiled, Unusable):
            return compiled.cause
        asked, wire = compiled
        return Plan(backend.facts, asked, wire, self._prompt_secret)

"""Compiles slow schemas outside the event loop, each once for all requests that wait."""

import asyncio
from collections.abc import Callable

from answerbus.dead_letter import HostileSchema
from answerbus.failure import Problem
from answerbus.request import InlineRef, SchemaRef
from services.worker.core.schema.resolved import ResolvedSchema, Unusable
from services.worker.dialects.dispatch import DialectName
from services.worker.dialects.schema_cache import Compiled, SchemaCache, compiled_for
from services.worker.ports.costly_work import CostlyWork, EndedAtLimit

IN_PLACE_CHARS_MAX = 512  # of a schema that is compiled in the event loop
TOO_COSTLY = Unusable(
    HostileSchema(
        problems=(Problem.of("", "too_costly", "a smaller or simpler schema: it takes too long"),)
    )
)


def is_small(ref: SchemaRef, text: str) -> bool:
    """Whether compiling holds the loop for some milliseconds at most; contracts are our own.

    A short pattern may make an automaton of a megabyte.
    """
    if not isinstance(ref, InlineRef):
        return True
    return len(text) <= IN_PLACE_CHARS_MAX and '"pattern' not in text


class SchemaCompiler:
    def __init__(self, cache: SchemaCache, costly_work: CostlyWork) -> None:
        self._cache, self._costly_work = cache, costly_work
        self._under_way: dict[tuple[str, DialectName], asyncio.Future[Compiled]] = {}

    async def compiled(
        self,
        text: str,
        resolved: Callable[[], ResolvedSchema | Unusable],
        dialect: DialectName,
        owner: str,
    ) -> Compiled:
        """What `resolved` makes, and its wire schema in `dialect`, for all that say `text`.

        `owner`, such as a workflow, has its turn beside others.
        """
        found = self._cache.find(text, dialect)
        if found is not None:
            return found
        key = text, dialect
        if key not in self._under_way:
            work = asyncio.ensure_future(self._compile(text, resolved, dialect, owner))
            self._under_way[key] = work
            work.add_done_callback(lambda _: self._under_way.pop(key, None))
        return await asyncio.shield(self._under_way[key])

    async def _compile(
        self,
        text: str,
        resolved: Callable[[], ResolvedSchema | Unusable],
        dialect: DialectName,
        owner: str,
    ) -> Compiled:
        found = await self._costly_work.run(owner, compiled_for, resolved, dialect)
        compiled = TOO_COSTLY if isinstance(found, EndedAtLimit) else found
        is_by_chance = isinstance(found, EndedAtLimit) and found.limit == "wall_time"
        if not is_by_chance:  # else another try may do
            self._cache.take(text, dialect, compiled)
        return compiled

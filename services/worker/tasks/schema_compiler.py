"""Compiles slow schemas outside the event loop, each once for all requests that wait."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial

from services.worker.core.schema.resolved import ResolvedSchema, Unusable
from services.worker.dialects.dispatch import DialectName
from services.worker.dialects.schema_cache import Compiled, SchemaCache, compiled_for

Apart = Callable[[Callable[[], Compiled]], Awaitable[Compiled]]
"""Does a piece of work elsewhere, and gives what it comes to."""


async def at_once(job: Callable[[], Compiled]) -> Compiled:
    """Do the work in this thread, for tests with a virtual clock."""
    return job()


class SchemaCompiler:
    """See the module. One is compiled at a time: threads share what the loop has."""

    def __init__(self, cache: SchemaCache, apart: Apart) -> None:
        self._cache, self._apart = cache, apart
        self._turn = asyncio.Lock()
        self._under_way: dict[tuple[str, DialectName], asyncio.Future[Compiled]] = {}

    async def compiled(
        self, text: str, resolved: Callable[[], ResolvedSchema | Unusable], dialect: DialectName
    ) -> Compiled:
        """What `resolved` makes, and its wire schema in `dialect`, for all that say `text`."""
        found = self._cache.find(text, dialect)
        if found is not None:
            return found
        key = text, dialect
        if key not in self._under_way:
            work = asyncio.ensure_future(self._compile(text, resolved, dialect))
            self._under_way[key] = work
            work.add_done_callback(lambda _: self._under_way.pop(key, None))
        return await asyncio.shield(self._under_way[key])

    async def _compile(
        self, text: str, resolved: Callable[[], ResolvedSchema | Unusable], dialect: DialectName
    ) -> Compiled:
        async with self._turn:
            compiled = await self._apart(partial(compiled_for, resolved, dialect))
        self._cache.take(text, dialect, compiled)
        return compiled

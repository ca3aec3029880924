"""Server-sent events: a page at its own address; only its changed parts are sent again."""

import asyncio
import json
import re
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

from aiohttp import web

from services.console.access.sessions import Holder
from services.console.context import CONTEXT
from services.console.form import STREAM_TYPE, is_streamed
from services.console.guard import COOKIE, session_of
from services.console.strict_headers import strict_headers

PERIOD_S = 2.0
KEEPALIVE_S = 15.0  # after which a comment shows proxies and browsers that the stream is alive
AGAIN_MS = 3_000  # before a browser connects again
STREAMS_MAX = 60
STREAMS_OF_ONE_MAX = 40  # of one person, or of all who share a token
_UNBUFFERED = {"X-Accel-Buffering": "no"}  # a proxy that collects answers would hold the events

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
# Our templates escape all values, so that a tag in the text of a page is one of ours.
_LIVE = re.compile(r"<(?P<tag>[a-z]+)(?=[^>]*\sdata-live\b)[^>]*\sid=\"(?P<id>[\w-]+)\"[^>]*>")


@dataclass(eq=False, slots=True)
class _Stream:
    holder: Holder
    session: str
    is_over: asyncio.Event = field(default_factory=asyncio.Event)


class Streams:
    """All that are open; closed before the server stops, which waits for what is under way."""

    def __init__(self, period_s: float = PERIOD_S) -> None:
        self._period_s = period_s
        self._closing = False
        self._open: list[_Stream] = []  # the oldest first

    async def close(self, _: web.Application) -> None:
        self._closing = True
        for stream in self._open:
            stream.is_over.set()

    async def serve(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """What the page's handler makes, again and again, for as long as the session lasts."""
        session = session_of(request)
        stream = _Stream(session.holder, session.csrf)
        self._make_room(stream.holder)
        self._open.append(stream)
        try:
            return await self._serve(request, handler, stream)
        finally:
            if stream in self._open:
                self._open.remove(stream)

    def _make_room(self, holder: Holder) -> None:
        """End a stream of the same holder, or of the one who has most of them."""
        of = Counter(stream.holder for stream in self._open)
        if of[holder] >= STREAMS_OF_ONE_MAX:
            crowded = holder
        elif len(self._open) >= STREAMS_MAX:
            crowded = max(of, key=lambda it: of[it])
        else:
            return
        theirs = [stream for stream in self._open if stream.holder == crowded]
        sessions = Counter(stream.session for stream in theirs)
        ended = max(theirs, key=lambda it: sessions[it.session])  # the oldest of the most
        self._open.remove(ended)
        ended.is_over.set()

    async def _serve(
        self, request: web.Request, handler: Handler, stream: _Stream
    ) -> web.StreamResponse:
        known = await _parts(request, handler)  # what is not a page is answered as without a stream
        strict = strict_headers(request.app[CONTEXT].static_files.style_source)
        response = web.StreamResponse(headers={**strict, **_UNBUFFERED})
        response.content_type = STREAM_TYPE
        try:
            await response.prepare(request)
            await self._send(request, handler, response, known, stream)
            if stream.is_over.is_set() and not self._closing:
                await response.write(b"event: over\ndata: {}\n\n")
        except ConnectionResetError:
            pass  # the browser has left the page
        return response

    async def _send(
        self,
        request: web.Request,
        handler: Handler,
        response: web.StreamResponse,
        known: Mapping[str, str],
        stream: _Stream,
    ) -> None:
        await response.write(f"retry: {AGAIN_MS}\n\n".encode())
        await response.write(_event(known))
        sent_at = time.monotonic()
        while await self._goes_on(stream) and _has_session(request):
            parts = await _parts(request, handler)
            changed = {name: html for name, html in parts.items() if known.get(name) != html}
            known = parts
            if changed:
                await response.write(_event(changed))
            elif time.monotonic() - sent_at < KEEPALIVE_S:
                continue
            else:
                await response.write(b":\n\n")
            sent_at = time.monotonic()

    async def _goes_on(self, stream: _Stream) -> bool:
        """Wait for the next turn; False when the stream is to end."""
        try:
            async with asyncio.timeout(0 if self._closing else self._period_s):
                await stream.is_over.wait()
        except TimeoutError:
            return not self._closing
        return False


STREAMS: web.AppKey[Streams] = web.AppKey("streams", Streams)


@web.middleware
async def streamed(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Pages whose address is asked for as a stream."""
    if not is_streamed(request):
        return await handler(request)
    return await request.app[STREAMS].serve(request, handler)


async def _parts(request: web.Request, handler: Handler) -> Mapping[str, str]:
    page = await handler(request)
    return live_parts(page.text or "") if isinstance(page, web.Response) else {}


def _event(parts: Mapping[str, str]) -> bytes:
    return f"event: parts\ndata: {json.dumps(parts, ensure_ascii=False)}\n\n".encode()


def _has_session(request: web.Request) -> bool:
    sessions = request.app[CONTEXT].guard.sessions
    return sessions.find(request.cookies.get(COOKIE), time.time()) is not None


def live_parts(html: str) -> Mapping[str, str]:
    """What is within each element that has `data-live` and an id, by that id."""
    found, at = dict[str, str](), 0
    while opened := _LIVE.search(html, at):
        end = _end(html, opened["tag"], opened.end())
        found[opened["id"]] = html[opened.end() : end]
        at = end
    return found


def _end(html: str, tag: str, start: int) -> int:
    """Where the element ends whose content begins at `start`."""
    depth = 1
    for match in re.finditer(rf"<(?P<slash>/?){tag}\b", html[start:]):
        depth += -1 if match["slash"] else 1
        if depth == 0:
            return start + match.start()
    return len(html)

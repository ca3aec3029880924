"""What a provider must do with prompts and responses, as checks that its author can run."""

import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from pydantic_core import from_json, to_json

from services.commands.providers.server import PlayedServer, response
from services.worker.adapters.clock import SystemClock
from services.worker.adapters.providers.apis.api import Api
from services.worker.adapters.providers.apis.connection import (
    Connection,
    ExchangeLimits,
    is_header_text,
)
from services.worker.adapters.providers.http import HttpProvider
from services.worker.adapters.providers.kinds.kind import SampleReply
from services.worker.adapters.providers.kinds.known import Kind
from services.worker.core.attempt.prompt import Prompt
from services.worker.core.attempt.reply import (
    Answered,
    Refused,
    Rejected,
    Reply,
    Throttled,
    TimedOut,
    Truncated,
    Unavailable,
)
from services.worker.core.attempt.turn import Turn
from services.worker.core.schema.resolved import WireSchema
from services.worker.ports.provider import NotReady, Readiness, Ready, Unhealthy

SECRET = "key-of-the-conformance-kit"  # noqa: S105 - of no account
OUTPUT_TOKENS = 77
NOW = datetime(2026, 1, 1, tzinfo=UTC)
SILENT_S = 0.3  # until a silent server is left
ANSWERED_S = 5.0  # until one that answers at once is left: the machine may be busy
LARGE_BYTES = 8 * 1024 * 1024
CPU_S_MAX = 1.0  # of one response, whatever is in it
NESTED = 20_000
_WIRE = WireSchema("native", "answer", {"type": "object", "properties": {"member_of_kit": {}}})
_PROMPT = Prompt(
    "r-1", 1, "system of the kit", (Turn("user", "turn of the kit"),), _WIRE, OUTPUT_TOKENS
)


@dataclass(frozen=True, slots=True)
class CheckResult:
    """A check by name, and in which way the provider fails it."""

    check: str
    fault: str | None


@dataclass(frozen=True, slots=True)
class Subject:
    """The provider that is checked, and the server that plays its maker's."""

    name: str
    kind: Kind
    server: PlayedServer

    @property
    def profile(self) -> Any:
        table = {"provider": self.name, "model": "m", **self.kind.example}
        return self.kind.profile.model_validate({**table, "base_url": self.server.url})

    @property
    def api(self) -> Api:
        connection = Connection("m", SECRET, max_in_flight=2, base_url=self.server.url)
        return self.kind.api(self.profile, connection)

    async def asked(self, plays: bytes | None) -> Reply:
        """The reply to one call, over HTTP."""
        self.server.plays = plays
        provider = HttpProvider(self.api, SystemClock())
        try:
            return await provider.ask(_PROMPT, timeout_s=_limit_s(plays))
        finally:
            await provider.close()

    async def ready(self, plays: bytes | None) -> Readiness:
        """The findings of the check at start, over HTTP."""
        self.server.plays = plays
        limits = ExchangeLimits(preflight_timeout_s=_limit_s(plays))
        provider = HttpProvider(self.api, SystemClock(), limits)
        try:
            return await provider.preflight()
        finally:
            await provider.close()

    def read(self, sample: SampleReply) -> Reply:
        return self.api.parse_response(200, sample.headers, sample.body, OUTPUT_TOKENS)


async def _request(subject: Subject) -> str | None:
    """One POST with system text, turns, schema, output limit and key; equal for an equal prompt."""
    request, again = subject.api.request(_PROMPT), subject.api.request(_PROMPT)
    if request != again:
        return "the same prompt makes two different requests"
    if request.method != "POST" or not request.path.startswith("/"):
        return "its request is not a POST to a path that begins with `/`"
    try:
        body = to_json(request.body)
    except ValueError:
        return "the body of its request is not JSON"
    for part in (b"system of the kit", b"turn of the kit", b"member_of_kit", b"77"):
        if part not in body:
            return "its request lacks the system text, a turn, the schema or the output limit"
    headers = subject.api.headers
    if not all(is_header_text(name + value) for name, value in headers.items()):
        return "its headers have characters that no header can carry"
    is_signed = subject.kind.sign(subject.profile, subject.api.connection) is not None
    if not is_signed and not any(SECRET in value for value in headers.values()):
        return "no header of its request has the key"
    return None


async def _answered(subject: Subject) -> str | None:
    """Its answer is read with 12 and 3 tokens, over HTTP as well."""
    sample = subject.kind.samples(subject.profile).answered
    reply = subject.read(sample)
    if not isinstance(reply, Answered) or reply.content != "{}":
        return f"it reads its own answer as {_said(reply)}"
    usage = reply.facts.usage
    if (usage.input_tokens, usage.output_tokens) != (12, 3):
        return "it does not read 12 tokens of input and 3 of output in its own answer"
    over_http = await subject.asked(response(200, sample.body, sample.headers))
    return None if over_http == reply else f"over HTTP the same answer is {_said(over_http)}"


async def _truncated(subject: Subject) -> str | None:
    """An answer that was cut is `Truncated`, at the limit that was asked for."""
    reply = subject.read(subject.kind.samples(subject.profile).truncated)
    is_cut = isinstance(reply, Truncated) and reply.limit == OUTPUT_TOKENS
    return None if is_cut else f"it reads a cut answer as {_said(reply)}"


async def _refused(subject: Subject) -> str | None:
    """A refusal is `Refused`, where the API has a sign for it."""
    sample = subject.kind.samples(subject.profile).refused
    if sample is None:
        return None
    reply = subject.read(sample)
    return None if isinstance(reply, Refused) else f"it reads a refusal as {_said(reply)}"


async def _usage(subject: Subject) -> str | None:
    """Impossible numbers of tokens are ignored."""
    document = from_json(subject.kind.samples(subject.profile).answered.body)
    odd_counts: tuple[Any, ...] = (None, -1, 1.5, "12", True, [], {})
    for odd in odd_counts:
        body = to_json(_with_counts(document, odd))
        reply = subject.api.parse_response(200, {}, body, OUTPUT_TOKENS)
        if not isinstance(reply, Answered):
            return f"it reads an answer with {odd!r} for each number as {_said(reply)}"
        if {reply.facts.usage.input_tokens, reply.facts.usage.output_tokens} != {None}:
            return f"it takes {odd!r} for a number of tokens"
    return None


def _with_counts(value: Any, count: Any) -> Any:
    """The same with each whole number of it replaced."""
    match value:
        case dict():
            return {name: _with_counts(inner, count) for name, inner in value.items()}
        case list():
            return [_with_counts(inner, count) for inner in value]
        case int() if not isinstance(value, bool):
            return count
        case _:
            return value


_STATUSES: Mapping[int, type[Reply]] = {
    **dict.fromkeys((307, 401, 402, 403, 404, 405, 410), Rejected),
    **dict.fromkeys((400, 413, 422), Rejected),
    429: Throttled,
    503: Throttled,  # which says when to come back
    **dict.fromkeys((408, 409, 500, 502, 504), Unavailable),
}


async def _statuses(subject: Subject) -> str | None:
    """15 statuses, with an error of its own, with no body and with HTML, are what they say."""
    error = subject.kind.samples(subject.profile).error
    for status, expected in _STATUSES.items():
        headers = {"retry-after": "3"} if expected is Throttled else {}
        for body in (error, b"", b"<html>"):
            reply = subject.api.parse_error(status, headers, body, NOW)
            if not isinstance(reply, expected):
                return f"it reads the status {status} as {_said(reply)}"
            if isinstance(reply, Throttled) and reply.retry_after_s != 3:
                return f"with status {status} it does not read `Retry-After`"
            if isinstance(reply, Rejected) and status in {401, 403} and reply.scope != "profile":
                return f"with status {status} it rejects the request and not the profile"
    return None


def _odd_bodies(good: bytes) -> Iterator[tuple[str, bytes]]:
    yield from {
        "nothing": b"",
        "HTML": b"<html>no</html>",
        "null": b"null",
        "a list": b"[]",
        "an empty object": b"{}",
        "not UTF-8": good[:-1] + b',"x":"\xff"}',
        "UTF-16": good.decode().encode("utf-16"),
        "a half surrogate": b'{"choices":"\\ud800","content":"\\ud800"}',
        "many brackets": b"[" * NESTED,
        "many objects": b'{"content":' * NESTED,
        "NaN": b'{"usage":NaN,"usageMetadata":NaN}',
    }.items()
    for part in range(1, 8):
        yield f"a body cut at {part} of 8", good[: len(good) * part // 8]


async def _odd_encodings(subject: Subject) -> str | None:
    """18 invalid bodies (cut, HTML, not UTF-8, nested without end) are not taken for answers."""
    good = subject.kind.samples(subject.profile).answered.body
    for what, body in _odd_bodies(good):
        reply = subject.api.parse_response(200, {}, body, OUTPUT_TOKENS)
        if not isinstance(reply, Unavailable) or not reply.ran:
            return f"it reads {what} as {_said(reply)}"
        if not isinstance(subject.api.parse_error(500, {}, body, NOW), Unavailable):
            return f"it does not read an error with {what} by its status"
    return None


async def _large(subject: Subject) -> str | None:
    """8 MiB of one text, of values, of members: under 1 s of CPU; over HTTP they are cut."""
    good = subject.kind.samples(subject.profile).answered.body
    bodies = {
        "of one text": good.replace(b'"{}"', b'"' + b"x" * LARGE_BYTES + b'"'),
        "of small values": b"[" + b"0," * (LARGE_BYTES // 2) + b"0]",
        "of many members": b'{"a":{' + b'"b":0,' * (LARGE_BYTES // 6) + b'"c":0}}',
    }
    for what, body in bodies.items():
        began = time.process_time()
        reply = subject.api.parse_response(200, {}, body, OUTPUT_TOKENS)
        if time.process_time() - began > CPU_S_MAX:
            return f"a response of 8 MiB {what} takes more than {CPU_S_MAX:g} s"
        if not isinstance(reply, Answered | Unavailable):
            return f"it reads a response of 8 MiB {what} as {_said(reply)}"
    over_http = await subject.asked(response(200, bodies["of one text"]))
    if over_http != Unavailable(200, ran=True):
        return f"over HTTP a response of 8 MiB is {_said(over_http)}"
    return None


async def _broken(subject: Subject) -> str | None:
    """Silence and another protocol are one reply each, and the call may have run."""
    good = response(200, subject.kind.samples(subject.profile).answered.body)
    for what, plays, expected in (
        ("a silent server", None, TimedOut(SILENT_S)),
        ("another protocol", b"SSH-2.0-x\r\n\r\n", Unavailable(None, ran=True)),
        ("an answer after another protocol", good, None),
    ):
        reply = await subject.asked(plays)
        if expected is None and not isinstance(reply, Answered):
            return f"after {what} it reads {_said(reply)}"
        if expected is not None and reply != expected:
            return f"{what} is {_said(reply)}"
    return None


async def _preflight(subject: Subject) -> str | None:
    """Ready, not ready with a refused key, unhealthy in silence; the key is not shown."""
    samples = subject.kind.samples(subject.profile)
    for what, plays, expected in (
        ("where all is well", response(200, samples.ready), Ready),
        ("where the key is refused", response(401, samples.error), NotReady),
        ("of a silent server", None, Unhealthy),
    ):
        found = await subject.ready(plays)
        if not isinstance(found, expected):
            return f"its check {what} says {type(found).__name__}"
    for odd in (b"", b"<html>", b"[]", b"{}", b"null"):
        if not isinstance(await subject.ready(response(200, odd)), Readiness):
            return "its check at start gives something that is not a Readiness"
    if SECRET in repr(subject.api):
        return "its `repr` shows the key"
    return None


def _limit_s(plays: bytes | None) -> float:
    return SILENT_S if plays is None else ANSWERED_S


def _said(reply: object) -> str:
    return type(reply).__name__


CHECKS: Mapping[str, Callable[[Subject], Awaitable[str | None]]] = {
    "request": _request,
    "answers": _answered,
    "cut answers": _truncated,
    "refusals": _refused,
    "usage": _usage,
    "statuses": _statuses,
    "odd encodings": _odd_encodings,
    "bodies of 8 MiB": _large,
    "time-outs": _broken,
    "check at start": _preflight,
}

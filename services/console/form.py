"""The fields of forms and addresses, read in one place; a malformed one is a 400."""

import asyncio
import re
from collections.abc import Collection
from typing import TypeVar
from urllib.parse import parse_qsl

from aiohttp import web
from multidict import MultiDict

FIELDS_MAX = 20_000
NAME_CHARS_MAX = 1_000  # of a field: those of filters by labels are the longest
IN_PLACE_BYTES_MAX = 32 * 1024  # of a form that is read in the event loop: each `%` takes 500 ns
BODY_S_MAX = 30.0  # how long a form may take to arrive
_PAGE_DIGITS = 9
_TYPE = "application/x-www-form-urlencoded"  # as our pages send them; no file is ever sent
STREAM_TYPE = "text/event-stream"
_BROKEN_ESCAPE = re.compile(rb"%(?![0-9A-Fa-f]{2})")  # slow to read, and no browser sends it
_CHARSETS = frozenset({None, "utf-8", "utf8"})

Form = MultiDict[str]
Choice = TypeVar("Choice", bound=str)
_FORM: web.RequestKey[Form] = web.RequestKey("form", Form)


async def form_of(request: web.Request) -> Form:
    """The fields. Raises HTTPBadRequest, HTTPRequestTimeout and HTTPRequestEntityTooLarge."""
    if _FORM not in request:
        body = await _body(request)
        is_short = len(body) <= IN_PLACE_BYTES_MAX
        request[_FORM] = (
            _parsed(request, body) if is_short else await asyncio.to_thread(_parsed, request, body)
        )
    return request[_FORM]


async def _body(request: web.Request) -> bytes:
    try:
        async with asyncio.timeout(BODY_S_MAX):
            return await request.read()
    except TimeoutError:
        raise web.HTTPRequestTimeout(text="The form did not arrive in time.") from None
    except (web.RequestPayloadError, ConnectionError):  # chunks that are none, or it was cut
        raise web.HTTPBadRequest(text="The form did not arrive whole.") from None


def known_names(request: web.Request, *names: str) -> None:
    """Raises HTTPBadRequest where the address has a parameter that its page does not know."""
    unknown = next((name for name in request.query if name not in names), None)
    if unknown is not None:
        known = f"it has {', '.join(names)}" if names else "it has none"
        raise web.HTTPBadRequest(text=f"This page has no parameter {unknown!r}: {known}.")


def choice_of(request: web.Request, name: str, choices: Collection[Choice]) -> Choice:
    """The choice that a parameter names; by default the first. Raises HTTPBadRequest."""
    text = request.query.get(name, next(iter(choices)))
    choice = next((choice for choice in choices if choice == text), None)
    if choice is None:
        raise web.HTTPBadRequest(text=f"{name}={text!r} is none of {', '.join(choices)}.")
    return choice


def page_number(request: web.Request, count: int, size: int) -> tuple[int, int]:
    """The parameter `page`, from 0 on and at most the last one, and the last one."""
    last = max(0, (count - 1) // size)
    text = request.query.get("page", "0")
    return (min(int(text), last) if text.isdecimal() and len(text) < _PAGE_DIGITS else 0), last


def _parsed(request: web.Request, body: bytes) -> Form:
    charset = request.charset
    if request.content_type != _TYPE or (charset and charset.lower()) not in _CHARSETS:
        raise web.HTTPBadRequest(text=f"A form is sent here as {_TYPE}, in UTF-8.")
    if _BROKEN_ESCAPE.search(body):
        raise web.HTTPBadRequest(text="The form has a % without two hexadecimal digits.")
    try:
        fields = parse_qsl(
            body.decode(),
            keep_blank_values=True,
            errors="strict",
            max_num_fields=FIELDS_MAX,
        )
    except ValueError:
        text = f"The form is not in UTF-8, or has more than {FIELDS_MAX:,} fields."
        raise web.HTTPBadRequest(text=text) from None
    if any(len(name) > NAME_CHARS_MAX for name, _ in fields):
        raise web.HTTPBadRequest(text="The form has a field with a name that none here has.")
    return MultiDict(fields)


def is_streamed(request: web.Request) -> bool:
    """Whether only the live parts of a page are asked for, again and again."""
    return request.method == "GET" and request.headers.get("Accept") == STREAM_TYPE

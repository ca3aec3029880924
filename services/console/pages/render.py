"""Templates into pages: everything is escaped, and shown to a role that may see it."""

import asyncio
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache, partial
from typing import Any

from aiohttp import web
from jinja2 import Environment, PackageLoader, StrictUndefined, Template
from markupsafe import Markup, escape

from services.console.access.tokens import Role
from services.console.context import CONTEXT
from services.console.guard import MAY_DECIDE, SESSION
from services.console.pages.frame import frame_values
from services.console.views.chips import value_words
from services.console.views.input_form import fields_of
from services.console.views.links import profile_href, profile_place
from services.console.views.units import bytes_text, duration, share, short, usd
from services.operators.dead_letters.why import why_text
from services.operators.runs.run_words import again_lines, show_text
from services.operators.runs.shown_args import shown_args
from services.text.counted import count_text
from services.text.escaping import json_lines, plain, plain_html

_UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))


@cache
def environment() -> Environment:
    """The templates; a name that a page forgot to give is an error, not an empty place."""
    made = Environment(
        loader=PackageLoader("services.console"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_shown,  # of all values that pages show
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters.update(
        moment=moment,
        iso=iso,
        usd=usd,
        number=number,
        counted=count_text,
        share=share,
        exact=exact,
        pretty=json_lines,
        shown_args=shown_args,
        again_lines=again_lines,
        input_fields=fields_of,
        show_text=show_text,
        duration=duration,
        short=short,
        clipped=clipped,
        bytes=bytes_text,
        profile_place=profile_place,
        profile_href=profile_href,
        why=why_text,
    )
    made.globals.update(words=value_words)
    return made


def exact(value: str) -> Markup:
    """For fields of forms: what is sent back is the value itself, and not how it is shown."""
    return Markup(plain_html(escape(value)))  # noqa: S704 - it adds references to signs


def _shown(value: object) -> object:
    return plain(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def page(request: web.Request, template: str, status: int = 200, **values: Any) -> web.Response:
    """A page for the role that asks."""
    text = _template(request, template).render({**_common(request), **values})
    return web.Response(text=text, status=status, content_type="text/html")


async def long_page(
    request: web.Request, template: str, status: int = 200, **values: Any
) -> web.Response:
    """The same of many values, which hold the event loop for a moment alone."""
    shown = {**_common(request), **values}
    text = await asyncio.to_thread(_template(request, template).render, shown)
    return web.Response(text=text, status=status, content_type="text/html")


def _template(request: web.Request, name: str) -> Template:
    return request.app[CONTEXT].templates.get_template(name)


def _common(request: web.Request) -> Mapping[str, Any]:
    """The values that all pages show."""
    context, session = request.app[CONTEXT], request.get(SESSION)
    now_s = context.now()
    return {
        "here": request.path,
        "session": session,
        "operator": session is not None and session.role is Role.OPERATOR,
        "approver": session is not None and session.role in MAY_DECIDE,
        "progress": context.feed.progress,
        "issuer": context.issuer,
        "has_tokens": context.guard.tokens.any,
        "static": context.static_files.address,
        "first_style": context.static_files.first_style,
        "drawn_icon": context.static_files.drawn("icon.svg"),
        **frame_values(request, context, int(now_s * 1000)),
        "now_ms": int(now_s * 1000),
        "ago": partial(ago, now_ms=int(now_s * 1000)),
    }


def ago(at_ms: int, now_ms: int) -> str:
    """How long ago, in the largest unit that fits."""
    seconds = max(0, (now_ms - at_ms) // 1000)
    size, unit = next(((size, unit) for size, unit in _UNITS if seconds >= size), (1, "s"))
    return f"{seconds // size} {unit} ago"


def moment(at_ms: int) -> str:
    """Date and time in UTC."""
    return f"{datetime.fromtimestamp(at_ms / 1000, UTC):%Y-%m-%d %H:%M:%S}"


def iso(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds")


def number(value: int | None) -> str:
    """With thousands set apart; no number means no limit."""
    return "no limit" if value is None else f"{value:,}"


def clipped(text: str, chars: int) -> str:
    """Where there is little room."""
    return text if len(text) <= chars else f"{text[: chars - 1]}…"

"""One exchange with an issuer: bounded in time and bytes, and a JSON object or one sentence."""

import json
import re
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from aiohttp import ClientError, ClientResponse, ClientSession

from services.console.access.person import SignInRefused

EXCHANGE_S_MAX = 10.0
BYTES_MAX = 256 * 1024
_PIECE_BYTES = 16 * 1024
_HEADERS = {"Accept": "application/json", "Accept-Encoding": "identity"}
_ERROR_CODE = re.compile(r"[a-z_]{1,64}")

Json = Mapping[str, Any]


async def json_of(
    session: ClientSession,
    url: str,
    form: Mapping[str, str] | None = None,
    headers: Mapping[str, str] | None = None,
) -> Json | SignInRefused:
    """What the issuer has at an address, or answers to a form; nothing of a refusal but its code.

    The session must not unpack bodies: what is not unpacked cannot explode.
    """
    method, sent = ("GET" if form is None else "POST"), {**_HEADERS, **(headers or {})}
    try:
        async with session.request(
            method, url, data=form, headers=sent, allow_redirects=False
        ) as response:
            body = await _body(response)
            status = response.status
    except TimeoutError:
        return refused(f"did not answer within {EXCHANGE_S_MAX:g} s")
    except (ClientError, OSError, ValueError) as error:
        return refused(f"does not answer ({type(error).__name__})")
    if body is None:
        return refused(f"sent more than {BYTES_MAX // 1024} KiB")
    found = _parsed(body)
    if status != HTTPStatus.OK:
        return refused(f"answered {status}{error_code(found.get('error') if found else None)}")
    return refused("sent no JSON object") if found is None else found


def refused(what: str) -> SignInRefused:
    return SignInRefused(f"The issuer {what}: try again, or ask those who run it.")


async def _body(response: ClientResponse) -> bytes | None:
    body = b""
    while piece := await response.content.read(_PIECE_BYTES):
        body += piece
        if len(body) > BYTES_MAX:
            return None
    return body


def _parsed(body: bytes) -> Json | None:
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def error_code(code: object) -> str:
    """An error's name by RFC 6749, in brackets; empty where it is not such a name."""
    return f" ({code})" if isinstance(code, str) and _ERROR_CODE.fullmatch(code) else ""

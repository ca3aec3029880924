"""Reads the common fields of providers' HTTP responses, trusting nothing in them: pure."""

import json
import math
import re
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

from pydantic_core import from_json

from answerbus.budget import Usage
from answerbus.json_values import has_more_values
from services.worker.core.attempt.reply import Rejected, Reply, Throttled, Unavailable
from services.worker.core.attempt.tariff import STANDARD

RETRY_AFTER_S_MAX = 86_400.0  # no request lasts longer than a day
REPLY_VALUES_MAX = 10_000  # JSON values of a response; the longest answer is one of them
FAST_BYTES_MAX = 64 * 1024  # of what is read with all its digits
DIGITS_MAX = 32  # of a number in a longer one
TOKENS_MAX = 1_000_000_000  # of one call; a larger count is nonsense and would ruin an account
_DIGITS = bytes.maketrans(b"123456789", b"000000000")
_LONG_NUMBER = b"0" * (DIGITS_MAX + 1)
_NAME = re.compile(r"[\x21-\x7e]{1,128}")  # models, ids and stop reasons as the audit keeps them
_HALF_PAIR = re.compile(rb"\\u[dD][89a-fA-F]")  # or a whole one
_CODE = re.compile(r"[A-Za-z0-9_.-]{1,64}")

NO_STRUCTURED_OUTPUT = "no_structured_output"  # our word, where providers say it in prose alone

# 407: a proxy on the way wants credentials; 406 and 415: what is there does not speak this API
_PROFILE_STATUSES = {401, 402, 403, 404, 405, 406, 407, 410, 415}
_REQUEST_STATUSES = {400, 413, 422}
_OVERLOADED_STATUSES = {503, 529}


def json_in(body: bytes, values_max: int = REPLY_VALUES_MAX) -> Any:
    """The document, or None where there is none: cut, HTML, not UTF-8, nested without end.

    None, too, for a document of more values. Long numbers may be infinite: no reply needs them, and
    thousands of digits take long to read.
    """
    if has_more_values(body, values_max):
        return None
    if len(body) > FAST_BYTES_MAX and _LONG_NUMBER in body.translate(_DIGITS):
        return _read_slowly(body)
    try:
        return from_json(body)
    except ValueError:
        return _read_slowly(body) if _HALF_PAIR.search(body) else None


def _read_slowly(body: bytes) -> Any:
    """Without long numbers, and with texts that end in half a character.

    Models that are cut write such texts; the check refuses them.
    """
    try:
        return _STANDARD.decode(body.decode())
    except (ValueError, RecursionError):
        return None


def _integer(digits: str) -> float:
    return int(digits) if len(digits) <= DIGITS_MAX else math.inf


def _fraction(digits: str) -> float:
    return float(digits) if len(digits) <= DIGITS_MAX else math.inf


_STANDARD = json.JSONDecoder(parse_int=_integer, parse_float=_fraction)


def name_in(value: Any) -> str | None:
    """A model, an id or a stop reason, if it is one."""
    return value if isinstance(value, str) and _NAME.fullmatch(value) else None


def code_in(value: Any) -> str | None:
    """An error code, if it is one and no prose."""
    return value if isinstance(value, str) and _CODE.fullmatch(value) else None


def tokens_in(value: Any) -> int | None:
    """A number of tokens, if it can be true."""
    # `type`, since True is an int.
    return value if type(value) is int and 0 <= value <= TOKENS_MAX else None


def tokens_sum(first: Any, *others: Any) -> int | None:
    """`first` and what is counted beside it, as far as that is said; None if one cannot be true."""
    counts = [tokens_in(value) for value in (first, *others) if value is not None]
    if first is None or None in counts:
        return None
    return sum(count or 0 for count in counts)


def openai_usage(
    read: Any, read_details: Any, written: Any, written_details: Any, total: Any
) -> Usage:
    """Usage as both of OpenAI's APIs report it: parts are within input and output.

    Some servers (of xAI, and those in front of Gemini) count thoughts beside the output, or name
    them in the total alone.
    """
    inside = read_details if isinstance(read_details, dict) else {}
    thought = written_details if isinstance(written_details, dict) else {}
    reasoning, output = tokens_in(thought.get("reasoning_tokens")) or None, tokens_in(written)
    if reasoning and output is not None and reasoning > output:
        output += reasoning
    prompt, together = tokens_in(read), tokens_in(total)
    if prompt is not None and output is not None and together is not None:
        output = max(output, together - prompt)
    return Usage(
        input_tokens=prompt,
        output_tokens=output,
        cached_tokens=tokens_in(inside.get("cached_tokens")) or None,
        cache_write_tokens=tokens_in(inside.get("cache_write_tokens")) or None,
        reasoning_tokens=reasoning,
    )


def tier_in(value: Any) -> str | None:
    """The service tier that served a call, if it is named; makers have two words for the usual."""
    name = code_in(value)
    return STANDARD if name == "default" else name and name.lower()


def parse_status(
    status: int, codes: Sequence[str], wait_s: float | None, profile_codes: Collection[str]
) -> Reply:
    """The reply for a status other than 2xx.

    `codes` are the provider's own, the most telling one first; with one of `profile_codes` no
    request of this profile fares better. `wait_s`: see `retry_after_s`.
    """
    code = codes[0] if codes else None
    if status // 100 == 3 or status in _PROFILE_STATUSES:  # a redirect says: wrong base_url
        return Rejected("profile", status, code)
    named = next((code for code in codes if code in profile_codes), None)
    if status // 100 == 4 and named:
        return Rejected("profile", status, named)
    if status in _REQUEST_STATUSES:
        return Rejected("request", status, code)
    if status == 429 or (status in _OVERLOADED_STATUSES and wait_s is not None):
        return Throttled(wait_s)
    return Unavailable(status, ran=True)


def retry_after_s(headers: Mapping[str, str], now: datetime | None) -> float | None:
    """Seconds until the server wants to be asked again, at most a day; None if it said nothing.

    A date counts from the server's own `Date`, so that its clock may be wrong; at need from `now`,
    and where that is not known it says nothing.
    """
    for name, per_second in (("retry-after-ms", 1000), ("retry-after", 1)):
        delay = _number(headers.get(name))
        if delay is not None and delay >= 0:
            return min(delay / per_second, RETRY_AFTER_S_MAX)
    moment = _date(headers.get("retry-after"))
    since = _date(headers.get("date")) or now
    if moment is None or since is None:
        return None
    wait_s = (moment - since).total_seconds()
    return min(max(wait_s, 0.0), RETRY_AFTER_S_MAX)


def _number(text: str | None) -> float | None:
    try:
        number = float(text) if text and text.isascii() and "_" not in text else math.nan
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _date(text: str | None) -> datetime | None:
    try:
        moment = parsedate_to_datetime(text or "")
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)

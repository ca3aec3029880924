"""Errors under a status of success, as gateways and proxies send them: pure."""

import re
from collections.abc import Mapping
from typing import Any

from services.worker.adapters.providers.apis.response_fields import code_in

_STATUS = re.compile("[45][0-9]{2}")
# What the makers document for their codes. Gateways pass them on, so that each may come from any.
_STATUSES = {
    "invalid_request_error": 400,
    "context_length_exceeded": 400,
    "content_filter": 400,
    "INVALID_ARGUMENT": 400,
    "FAILED_PRECONDITION": 400,
    "authentication_error": 401,
    "UNAUTHENTICATED": 401,
    "billing_error": 402,
    "permission_error": 403,
    "PERMISSION_DENIED": 403,
    "not_found_error": 404,
    "NOT_FOUND": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "rate_limit_exceeded": 429,
    "insufficient_quota": 429,
    "RESOURCE_EXHAUSTED": 429,
    "api_error": 500,
    "server_error": 500,
    "INTERNAL": 500,
    "UNAVAILABLE": 503,
    "server_is_overloaded": 503,
    "slow_down": 503,
    "timeout_error": 504,
    "DEADLINE_EXCEEDED": 504,
    "overloaded_error": 529,
}


def true_status(error: Mapping[Any, Any]) -> int | None:
    """The status in an error, by its number or its word; None if it has none."""
    given = [error.get(name) for name in ("code", "status", "type")]
    numbers = (status for value in given if (status := _number(value)) is not None)
    words = (_STATUSES[word] for value in given if (word := code_in(value)) in _STATUSES)
    return next(numbers, None) or next(words, None)


def _number(value: Any) -> int | None:
    """A status of 4xx or 5xx, which some write as a text; True is none."""
    status = int(value) if isinstance(value, str) and _STATUS.fullmatch(value) else value
    return status if type(status) is int and status // 100 in {4, 5} else None

"""The digest of a JSON value, the same however it is spelt."""

from pydantic import JsonValue

from answerbus.evidence.record_digest import canonical
from answerbus.wire import bytes_digest


def canonical_digest(value: JsonValue) -> str:
    """That of its RFC 8785 text, with integers beyond 2^53 as texts of their digits."""
    return bytes_digest(canonical(value).encode())

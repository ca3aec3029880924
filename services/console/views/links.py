"""Addresses of pages with their parameters; pure."""

from collections.abc import Iterable
from urllib.parse import urlencode


def address(path: str, pairs: Iterable[tuple[str, str]] = ()) -> str:
    """A path, and what stands behind its question mark."""
    query = urlencode(list(pairs))
    return f"{path}?{query}" if query else path

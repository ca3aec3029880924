"""The identity of a request: its own id is unique only within its workflow."""

import base64
import hashlib
from functools import lru_cache
from typing import NamedTuple, Protocol, Self

MARK_BYTES = 10  # 80 bits: no two workflows and requests have the same mark by chance or by search
SEPARATOR = "@"  # no request id contains it, so that the first one ends the request id


class OfRequest(Protocol):
    """An event, or a part of one, that names its request and its workflow."""

    @property
    def request_id(self) -> str:
        """The id that the publisher chose; another workflow may use it, too."""

    @property
    def workflow_id(self) -> str:
        """The workflow of the request."""


class OfCall(Protocol):
    """An event that names a tool call and its workflow."""

    @property
    def call_id(self) -> str:
        """The id of the call."""

    @property
    def workflow_id(self) -> str:
        """The workflow of the run that makes it."""


class RequestKey(NamedTuple):
    """The workflow and the request; the type of every key that identifies a request."""

    workflow_id: str
    request_id: str

    @classmethod
    def of(cls, event: OfRequest) -> Self:
        """The request that an event is about, or the event itself."""
        return cls(event.workflow_id, event.request_id)

    @property
    def mark(self) -> str:
        """A digest of 16 letters and digits, for ids that must differ between workflows."""
        return _mark(self.workflow_id, self.request_id)

    def record_key(self, part: str = "") -> str:
        """The key of a record of a compacted topic; `part` distinguishes those of one request."""
        return f"{self.request_id}{part}{SEPARATOR}{self.workflow_id}"


@lru_cache(maxsize=1)  # a step may name it 500 times
def _mark(workflow_id: str, request_id: str) -> str:
    # The length of the workflow's id separates the two: `a` and `bc` are not `ab` and `c`.
    content = f"{len(workflow_id)}:{workflow_id}{request_id}".encode()
    return base64.b32encode(hashlib.sha256(content).digest()[:MARK_BYTES]).decode().lower()


class CallKey(NamedTuple):
    """The workflow and the tool call: ids of calls of older runs lack the workflow."""

    workflow_id: str
    call_id: str

    @classmethod
    def of(cls, event: OfCall) -> Self:
        """The call that an event is about."""
        return cls(event.workflow_id, event.call_id)

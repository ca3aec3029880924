"""A message about a run, written once: a run may have thousands, and shows them in each step."""

import json
from dataclasses import dataclass
from functools import cached_property
from weakref import ref

from answerbus.request import Message
from answerbus.wire import bytes_digest


@dataclass(frozen=True)
class RunMessage:
    """A message to the model about a step or the end of a call, `of`; `head` begins a result.

    `of` has many times the bytes of the message, and is not kept for it.
    """

    message: Message
    head: str | None = None
    of: ref[object] | None = None

    def is_of(self, what: object) -> bool:
        return self.of is not None and self.of() is what

    @cached_property
    def size(self) -> int:
        """In bytes."""
        return len(self.message.content.encode())

    @cached_property
    def short(self) -> "RunMessage":
        """The same of a result by its size and digest alone."""
        raw = self.message.content.removeprefix(f"{self.head}: ").encode()
        short = {"kind": "elided", "bytes": len(raw), "digest": bytes_digest(raw)}
        return RunMessage(result_message(str(self.head), json.dumps(short)), self.head)


def result_message(head: str, text: str) -> Message:
    """The end of a call as the model reads it."""
    return Message(role="user", content=f"{head}: {text}")

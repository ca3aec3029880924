"""A message about a run, written once: a run may have thousands, and tells them in each step."""

import json
from dataclasses import dataclass
from functools import cached_property

from answerbus.request import Message
from services.text.digest import bytes_digest


@dataclass(frozen=True)
class Told:
    """What the model is told `of` a step or of the end of a call; `head` is how a result begins."""

    of: object
    message: Message
    head: str | None = None

    @cached_property
    def size(self) -> int:
        """In bytes."""
        return len(self.message.content.encode())

    @cached_property
    def short(self) -> "Told":
        """The same of a result by its size and digest alone."""
        raw = self.message.content.removeprefix(f"{self.head}: ").encode()
        short = {"kind": "elided", "bytes": len(raw), "digest": bytes_digest(raw)}
        return Told(self.of, result_message(str(self.head), json.dumps(short)), self.head)


def result_message(head: str, text: str) -> Message:
    """The end of a call as the model reads it."""
    return Message(role="user", content=f"{head}: {text}")

"""One message to the model."""

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

Role = Literal["user", "assistant"]


@dataclass(frozen=True)
class Turn:
    """Of which prompts keep no other form; several prompts may have the same one."""

    role: Role
    text: str

    @cached_property
    def size(self) -> int:
        """In bytes."""
        return len(self.text.encode())

"""The identity of a dead letter: its own id is unique only within its workflow."""

from typing import NamedTuple, Protocol, Self

SEPARATOR = "@"  # no id of a dead letter contains it, so that the first one ends the id


class OfDeadLetter(Protocol):
    """A dead letter, whole or in short."""

    @property
    def dead_letter_id(self) -> str:
        """Made of the request's id, which another workflow may use, too; or of a position."""

    @property
    def workflow_id(self) -> str | None:
        """The workflow, if the dead letter names it."""

    @property
    def request(self) -> object | None:
        """The request; None if the record is none, or if it was too large for the topic."""

    @property
    def account(self) -> object | None:
        """That of the request; None if the record is none."""


class DeadLetterKey(NamedTuple):
    """The workflow and the dead letter; of a record the position is enough: no workflow."""

    workflow_id: str
    dead_letter_id: str

    @classmethod
    def of(cls, dead_letter: OfDeadLetter) -> Self:
        is_of_request = dead_letter.request is not None or dead_letter.account is not None
        named = dead_letter.workflow_id if is_of_request else None
        return cls(named or "", dead_letter.dead_letter_id)

    @classmethod
    def parse(cls, text: str) -> Self:
        """From `text`; an id alone has no workflow."""
        dead_letter_id, _, workflow_id = text.partition(SEPARATOR)
        return cls(workflow_id, dead_letter_id)

    @property
    def text(self) -> str:
        """`<id>@<workflow>`, as operators give it to commands; the id alone without a workflow."""
        at = SEPARATOR if self.workflow_id else ""
        return f"{self.dead_letter_id}{at}{self.workflow_id}"

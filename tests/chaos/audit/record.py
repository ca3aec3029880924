"""A record as a reader of Kafka sees it, without any client's types."""

from dataclasses import dataclass
from datetime import datetime

Headers = tuple[tuple[str, bytes | None], ...]


@dataclass(frozen=True, slots=True)
class Record:
    """`topic` is the short name, such as `dead-letters`; `timestamp` is UTC with milliseconds."""

    topic: str
    partition: int
    offset: int
    timestamp: datetime
    key: bytes | None
    value: bytes | None
    headers: Headers = ()

    @property
    def where(self) -> str:
        """Its place, for people."""
        return f"{self.topic}-{self.partition}-{self.offset}"

    def header(self, name: str) -> str | None:
        """The last header of that name, as text."""
        found = [content for header, content in self.headers if header == name]
        return None if not found or found[-1] is None else found[-1].decode(errors="replace")

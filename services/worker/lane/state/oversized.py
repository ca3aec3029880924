"""Records that were larger than their topics take, by what they are about.

A topic takes fewer bytes than it should where its limit was lowered while the worker ran.
"""

from dataclasses import dataclass, field

from answerbus.cause import Cancelled
from answerbus.limits import KIB
from answerbus.request_key import RequestKey
from answerbus.topics import Topic
from services.worker.ports.kafka import About, OutRecord, RecordTooLarge, too_large_text

KNOWN_MAX = 10_000  # more than one transaction has; the oldest would be found out again
HEAD_BYTES_MAX = 5 * KIB  # the headers of a record of ours, and the batch around it


@dataclass(slots=True)
class Oversized:
    """Known to one lane, also when it opens again: what is written then differs.

    `causes` are of requests, which end. Other events are written again, smaller.
    """

    causes: dict[RequestKey, Cancelled] = field(default_factory=dict)
    _sizes: dict[tuple[About, str], int] = field(default_factory=dict)

    def add(self, error: RecordTooLarge) -> None:
        """Records were refused."""
        for record in error.records:
            if record.about is None:
                continue
            self._sizes[record.about, record.topic.name] = record.size_bytes
            if isinstance(record.about, RequestKey):
                reason = too_large_text(record)
                self.causes[record.about] = Cancelled(by="answerbus", reason=reason)
            if len(self._sizes) > KNOWN_MAX:
                del self._sizes[next(iter(self._sizes))]
            if len(self.causes) > KNOWN_MAX:
                del self.causes[next(iter(self.causes))]

    def has(self, about: About, topic: Topic) -> bool:
        """Whether the topic did not take what was to be written about it."""
        return (about, topic.name) in self._sizes

    def may_fit(self, record: OutRecord) -> bool:
        """Whether it is smaller than what its topic did not take, or is known not to take."""
        refused = record.topic.record_bytes_max - HEAD_BYTES_MAX
        if self._sizes and record.about is not None:
            refused = self._sizes.get((record.about, record.topic.name), refused)
        return record.size_bytes < refused

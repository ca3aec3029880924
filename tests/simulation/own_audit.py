"""What a history leaves behind, as operators read it and as their own audit judges it."""

from collections import defaultdict
from collections.abc import Iterable, Sequence

from answerbus.topics import Topic
from services.operators.audit.findings import AuditFinding
from services.operators.records.stored import Stored
from tests.chaos.audit.record import Record
from tests.unit.operators.audit.verifying import verified


def stored(records: Iterable[Record], topics: Iterable[Topic]) -> list[Stored]:
    """The records of these topics."""
    by_name = {topic.name: topic for topic in topics}
    return [
        Stored(
            by_name[record.topic],
            record.partition,
            record.offset,
            int(record.timestamp.timestamp() * 1000),
            record.key,
            record.value,
            record.headers,
        )
        for record in records
        if record.topic in by_name
    ]


def breaks(records: Sequence[Stored]) -> list[AuditFinding]:
    """What `answerbus audit verify` finds broken."""
    by_partition: dict[int, list[Stored]] = defaultdict(list)
    for one in records:
        by_partition[one.partition].append(one)
    return [found for _, here in sorted(by_partition.items()) for found in verified(here).breaks]

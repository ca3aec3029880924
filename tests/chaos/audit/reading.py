"""Reads a history: the topics with a client of its own, the journal from its file."""

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient

from tests.chaos.audit.canonical import moment
from tests.chaos.audit.history import CALL_TOPICS, RUN_TOPICS, TOPICS, Call, Deed, History
from tests.chaos.audit.record import Record

READ_LIMIT_S = 120.0  # without a record; a reader stands still while a transaction is open
ASK_LIMIT_S = 20.0
_BATCH = 5_000
_POLL_S = 0.2


class UnreadableError(Exception):
    """There is nothing that could be audited; the text says why."""


def read_history(
    bootstrap: str,
    prefix: str,
    journal: Path,
    *,
    is_whole: bool = True,
    requests: Sequence[Record] | None = None,
    deeds: Path | None = None,
) -> History:
    """Everything up to the ends now: of the seven topics, and of those of agents if there are any.

    Raises UnreadableError. `deeds` is the file in which tools noted what they did.

    `requests` are the records of that topic where this client cannot read them: one that no
    client can read has no value.
    """
    consumer = _consumer(bootstrap)
    try:
        places = _places(consumer, prefix)
        asked = f"{prefix}.requests.v1"
        partitions = sum(place.topic == asked for place in places)
        left = [place for place in places if requests is None or place.topic != asked]
        found = [*(requests or ()), *_records(consumer, prefix, left)]
        records = sorted(found, key=lambda r: (r.topic, r.partition, r.offset))
    except KafkaException as error:
        raise UnreadableError(f"the broker at {bootstrap}: {error}") from error
    finally:
        consumer.close()
    committed = _committed(bootstrap, prefix, partitions)
    return History(
        prefix,
        partitions,
        records,
        read_journal(journal),
        committed,
        is_whole,
        deeds=None if deeds is None else read_deeds(deeds),
    )


def read_journal(path: Path) -> list[Call]:
    """The calls of a journal, in the order in which they began. Raises UnreadableError."""
    return calls_of(_lines(path))


def read_deeds(path: Path) -> list[Deed]:
    """What tools did, in the order in which they began. Raises UnreadableError."""
    return deeds_of(_lines(path))


def deeds_of(lines: list[dict[str, Any]]) -> list[Deed]:
    """Starts and ends, brought together by the name that each run of a tool gave itself."""
    ends = {line["run"]: moment(line["at"]) for line in lines if line["event"] == "end"}
    return [
        Deed(
            call_id=line["call_id"],
            delivery=line["delivery"],
            tool=line["tool"],
            pid=line["pid"],
            started=moment(line["at"]),
            ended=ends.get(line["run"]),
        )
        for line in lines
        if line["event"] == "start"
    ]


def _lines(path: Path) -> list[dict[str, Any]]:
    try:
        return [json.loads(line) for line in path.read_text().splitlines()]
    except (OSError, ValueError) as error:
        raise UnreadableError(f"the journal {path}: {error}") from error


def calls_of(lines: list[dict[str, Any]]) -> list[Call]:
    """Starts and ends, brought together by request, attempt and process."""
    ends: dict[tuple[str, int, int], dict[str, Any]] = {}
    for line in lines:
        if line["event"] == "end":
            ends[line["request_id"], line["attempt"], line["pid"]] = line
    calls = []
    for line in lines:
        if line["event"] == "start":
            end = ends.get((line["request_id"], line["attempt"], line["pid"]))
            calls.append(
                Call(
                    request_id=line["request_id"],
                    attempt=line["attempt"],
                    pid=line["pid"],
                    started=moment(line["at"]),
                    ended=moment(end["at"]) if end else None,
                    reply=end["reply"] if end else None,
                )
            )
    return calls


def _consumer(bootstrap: str) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "auditor-without-a-group",  # required, never joined
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "check.crcs": True,
        }
    )


def _places(consumer: Consumer, prefix: str) -> list[TopicPartition]:
    known = consumer.list_topics(timeout=ASK_LIMIT_S).topics
    names = [f"{prefix}.{topic}.v1" for topic in TOPICS]
    missing = [name for name in names if name not in known]
    if missing:
        raise UnreadableError(f"there is no topic {', '.join(missing)}")
    of_agents = tuple(f"{prefix}.{topic}.v1" for topic in RUN_TOPICS)
    of_calls = f"{prefix}.{CALL_TOPICS}"
    names += sorted(name for name in known if name in of_agents or name.startswith(of_calls))
    return [
        TopicPartition(name, number, OFFSET_BEGINNING)
        for name in names
        for number in known[name].partitions
    ]


def _records(consumer: Consumer, prefix: str, places: list[TopicPartition]) -> Iterator[Record]:
    ends = {(place.topic, place.partition): _end(consumer, place) for place in places}
    consumer.assign(places)
    heard = time.monotonic()
    while ends:
        messages = consumer.consume(_BATCH, timeout=0.2)
        heard = time.monotonic() if messages else heard
        if time.monotonic() - heard > READ_LIMIT_S:
            raise UnreadableError(
                f"no record came for {READ_LIMIT_S:.0f} s: is a transaction open?"
            )
        for message in messages:
            error = message.error()
            if error is None:
                yield _record(message, prefix)
            elif error.code() != KafkaError._PARTITION_EOF:
                raise KafkaException(error)
            elif (message.offset() or 0) >= ends.get(_place(message), 0):
                ends.pop(_place(message), None)


def _end(consumer: Consumer, place: TopicPartition) -> int:
    """Where a partition ends; a broker that has just started does not know at once."""
    limit = time.monotonic() + ASK_LIMIT_S
    while True:
        try:
            return consumer.get_watermark_offsets(place, timeout=ASK_LIMIT_S)[1]
        except KafkaException:
            if time.monotonic() > limit:
                raise
            time.sleep(_POLL_S)


def _place(message: Message) -> tuple[str, int]:
    return str(message.topic()), message.partition() or 0


def _record(message: Message, prefix: str) -> Record:
    topic, partition = _place(message)
    _, milliseconds = message.timestamp()
    headers: Any = message.headers()
    return Record(
        topic=topic.removeprefix(f"{prefix}.").removesuffix(".v1"),
        partition=partition,
        offset=message.offset() or 0,
        timestamp=datetime.fromtimestamp(milliseconds / 1000, UTC),
        key=message.key(),
        value=message.value(),
        headers=tuple(headers or ()),
    )


def _committed(bootstrap: str, prefix: str, partitions: int) -> Mapping[int, int]:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    places = [TopicPartition(f"{prefix}.requests.v1", number) for number in range(partitions)]
    asked = ConsumerGroupTopicPartitions(f"{prefix}.worker", places)
    try:
        (answer,) = admin.list_consumer_group_offsets([asked]).values()
        found = answer.result(timeout=ASK_LIMIT_S).topic_partitions
    except KafkaException as error:
        raise UnreadableError(f"the offsets of the group {prefix}.worker: {error}") from error
    return {place.partition: max(place.offset, 0) for place in found}

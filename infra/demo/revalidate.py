"""Validates all that is on the bus again, with nothing of answerbus but its JSON Schema files.

    python infra/demo/revalidate.py --bootstrap-servers 127.0.0.1:9092

Exit code 0 if every event obeys the schema of its kind, and every answer the very schema that its
request asked for: a contract's by name and version, or the one that the request carried.
"""

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, TopicPartition
from jsonschema import Draft202012Validator
from jsonschema.validators import validator_for

SCHEMAS = Path(__file__).parents[2] / "contracts" / "schemas"
TOPICS = ("results", "refusals", "retries", "dead-letters", "attempts", "steps")
SILENCE_S = 10.0  # a broker that says nothing for so long is not there

Json = dict[str, Any]

# What docs/wire.md says of wrapped answers: an output, or an honest reason why there is none.
_WRAPPER: Json = {
    "required": ["output", "success", "notes", "failure_reason"],
    "additionalProperties": False,
    "properties": {
        "output": True,
        "success": {"type": "boolean"},
        "notes": {"type": "array", "items": {"type": "string"}},
        "failure_reason": {"type": ["string", "null"]},
    },
    "if": {"properties": {"success": {"const": True}}},
    "then": {"properties": {"failure_reason": {"type": "null"}}},
    "else": {"properties": {"output": {"type": "null"}, "failure_reason": {"type": "string"}}},
}


def main() -> int:
    """Read everything, validate everything, and say what came of it."""
    options = _options()
    read = list(_events(options.bootstrap_servers, options.topic_prefix, ("requests", *TOPICS)))
    asked = {event["request_id"]: event for topic, event in read if _is_request(topic, event)}
    events = [event for topic, event in read if topic != "requests"]
    faults = [fault for event in events for fault in _faults(event, asked, options.schemas)]
    answers = sum("answer" in event and event["answer"] is not None for event in events)
    for fault in faults:
        print(fault)
    print(f"{len(events)} events and {answers} answers validated again, {len(faults)} faults")
    return 1 if faults or not events else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--bootstrap-servers", default="localhost:9092")
    parser.add_argument("--topic-prefix", default="answerbus")
    parser.add_argument("--schemas", type=Path, default=SCHEMAS)
    return parser.parse_args()


def _events(servers: str, prefix: str, topics: tuple[str, ...]) -> Iterator[tuple[str, Json]]:
    """Each JSON object in the topics, with the short name of its topic; other bytes are no event.

    Raises TimeoutError and KafkaException.
    """
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "revalidate",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
    )
    try:
        names = {f"{prefix}.{topic}.v1": topic for topic in topics}
        known = consumer.list_topics(timeout=SILENCE_S).topics
        places = [
            TopicPartition(n, p, OFFSET_BEGINNING)
            for n in names
            if n in known  # without agents there are no steps
            for p in known[n].partitions
        ]
        consumer.assign(places)
        unread = {(place.topic, place.partition) for place in places}
        while unread:
            record = consumer.poll(SILENCE_S)
            if record is None:
                raise TimeoutError(f"the broker at {servers} has fallen silent")
            error, place = record.error(), (record.topic() or "", record.partition())
            if error and error.code() != KafkaError._PARTITION_EOF:  # noqa: SLF001 - public
                raise KafkaException(error)
            if error:
                unread.discard(place)
            elif event := _object(record.value()):
                yield names[place[0]], event
    finally:
        consumer.close()


def _object(value: bytes | None) -> Json | None:
    try:
        parsed = json.loads(value or b"")
    except ValueError:
        return None
    return parsed if isinstance(parsed, dict) else None


def _is_request(topic: str, event: Json) -> bool:
    return topic == "requests" and isinstance(event.get("request_id"), str)


def _faults(event: Json, asked: dict[str, Json], schemas: Path) -> Iterator[str]:
    kind, subject = event["kind"], event.get("request_id")
    schema = _read(schemas / "events" / f"{kind}.v1.json")
    yield from (f"{kind} of {subject}: {fault}" for fault in _against(schema, event))
    if event.get("answer") is not None:
        for fault in _answer_faults(event, asked, schemas):
            yield f"answer in the {kind} of {subject}: {fault}"


def _answer_faults(event: Json, asked: dict[str, Json], schemas: Path) -> Iterator[str]:
    answer, named = event["answer"], event["schema"]
    wanted = asked[event["request_id"]]["answer_schema"]
    for name in ("kind", "name", "version"):
        if named.get(name) != wanted.get(name):
            yield f"it answers {name} {named.get(name)!r} where {wanted.get(name)!r} was asked for"
    match wanted["kind"]:
        case "contract":
            file = schemas / "contracts" / f"{wanted['name']}.v{wanted['version']}.json"
            yield from _against(_read(file), answer)
        case "text":
            yield from _against({"type": "string"}, answer)
        case "inline" if wanted.get("wrapped", True):
            yield from _against(_WRAPPER, answer)
            if answer.get("success"):
                yield from _against(wanted["json_schema"], answer.get("output"))
        case _:
            yield from _against(wanted["json_schema"], answer)


def _against(schema: Any, value: Any) -> Iterator[str]:
    kind = validator_for(schema, default=Draft202012Validator)
    kind.check_schema(schema)
    for error in kind(schema).iter_errors(value):
        yield f"{error.json_path}: {error.message}"


def _read(file: Path) -> Any:
    return json.loads(file.read_text(encoding="utf-8"))


if __name__ == "__main__":
    sys.exit(main())

"""Dead letters of many causes, published as workers would have."""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from aiokafka import AIOKafkaProducer

from answerbus.partition import partition_of
from answerbus.topics import DEAD_LETTERS
from tests.integration.bus import Bus, request

JsonObject = dict[str, Any]

_EXAMPLES = Path(__file__).parents[2] / "contracts" / "examples" / "dead_letter"
WITH_REQUEST = (
    "answer_too_large",
    "budget_exhausted_attempts",
    "crashed_worker",
    "deadline_passed",
    "hostile_schema",
    "invalid_answer",
    "rejected",
    "unknown_profile",
    "unknown_schema",
    "unsupported_schema",
)
WITHOUT_REQUEST = ("conflicting_id", "undecodable")
CAUSES = (*WITH_REQUEST, *WITHOUT_REQUEST)


def dead_letters(
    count: int, causes: Iterable[str] = CAUSES, workflows: int = 1_000
) -> list[JsonObject]:
    """So many letters, the causes in turn, a few of each workflow."""
    examples = [json.loads((_EXAMPLES / f"{cause}.json").read_text()) for cause in causes]
    return [
        dead_letter(examples[n % len(examples)], n, f"order-{n % workflows}") for n in range(count)
    ]


def dead_letter(example: JsonObject, number: int, workflow_id: str) -> JsonObject:
    """A letter like the example, of another request."""
    ids = {"request_id": f"r-{number}", "workflow_id": workflow_id}
    asked = example["request"]
    own = f"r-{number}" if asked else f"answerbus.requests.v1-0-{number}"
    return {
        **example,
        **ids,
        "dead_letter_id": f"{own}.dead-letter",
        "request": {**asked, **ids} if asked else None,
        "account": {**example["account"], "id": workflow_id} if asked else None,
    }


async def publish(
    bus: Bus, found: Iterable[JsonObject], headers: Sequence[tuple[str, bytes]] = ()
) -> None:
    """Write the letters, each into its workflow's partition."""
    async with AIOKafkaProducer(bootstrap_servers=bus.bootstrap) as producer:
        for body in found:
            await producer.send(
                bus.topic(DEAD_LETTERS),
                json.dumps(body).encode(),
                body["dead_letter_id"].encode(),
                partition=partition_of(body["workflow_id"], bus.partitions),
                headers=headers,
            )
        await producer.flush()


def repaired(body: JsonObject) -> JsonObject:
    """What a letter without a request should have been."""
    return request(body["request_id"], body["workflow_id"])

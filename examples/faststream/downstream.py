"""A FastStream service that reads every outcome of one contract: result, refusal, dead letter."""

import asyncio
import os

from faststream import FastStream
from faststream.kafka import KafkaBroker, KafkaMessage

from answerbus.answers.plan_proposal import CallsiteRewrite, DepBump, Override, PlanProposal
from answerbus.dead_letter import DeadLetter
from answerbus.outcome import Refusal, Result

PREFIX = os.environ.get("TOPIC_PREFIX", "answerbus")

broker = KafkaBroker(os.environ.get("KAFKA", "localhost:9092"))
app = FastStream(broker)
outcomes = broker.subscriber(
    f"{PREFIX}.results.v1",
    f"{PREFIX}.refusals.v1",
    f"{PREFIX}.dead-letters.v1",
    group_id="downstream",
    auto_offset_reset="earliest",
    isolation_level="read_committed",  # otherwise you also read aborted transactions
)


def is_plan(kind: str, message: KafkaMessage) -> bool:
    """Told by headers, without reading the body."""
    of_kind = message.headers.get("ce_type") == f"answerbus.{kind}.v1"
    return of_kind and message.headers.get("ce_contract") == "plan_proposal.v1"


@outcomes(filter=lambda message: is_plan("result", message))
async def apply(result: Result[PlanProposal]) -> None:
    match result.answer:
        case DepBump() as bump:
            print(f"{result.request_id}: {bump.package} to {bump.target_version}", flush=True)
        case Override() as override:
            print(f"{result.request_id}: {override.package} held at {override.forced_version}")
        case CallsiteRewrite() as rewrite:
            print(f"{result.request_id}: a patch of {', '.join(rewrite.files)}")


@outcomes(filter=lambda message: is_plan("refusal", message))
async def note(refusal: Refusal) -> None:
    print(f"{refusal.request_id}: {refusal}", flush=True)


@outcomes(filter=lambda message: is_plan("dead_letter", message))
async def fail(dead_letter: DeadLetter) -> None:
    print(f"{dead_letter.request_id}: {dead_letter}", flush=True)


@outcomes
async def leave(_: KafkaMessage) -> None:
    """What belongs to other contracts."""


if __name__ == "__main__":
    asyncio.run(app.run())

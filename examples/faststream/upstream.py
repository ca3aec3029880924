"""A FastStream service that asks by publishing: one request for each finding."""

import asyncio
import os

from faststream import FastStream
from faststream.kafka import KafkaBroker
from pydantic import BaseModel

from answerbus.request import Context, ContractRef, Fact, Request

PREFIX = os.environ.get("TOPIC_PREFIX", "answerbus")
FINDINGS = os.environ.get("FINDINGS", "findings")

broker = KafkaBroker(os.environ.get("KAFKA", "localhost:9092"), acks="all")
app = FastStream(broker)


class Finding(BaseModel):
    id: str
    repository: str
    text: str


@broker.subscriber(FINDINGS, group_id="upstream", auto_offset_reset="earliest")
async def ask(finding: Finding) -> None:
    request = Request(
        request_id=f"finding-{finding.id}",  # the same for a repeat, which workers then drop
        workflow_id=f"finding-{finding.id}",  # each has a budget of its own
        answer_schema=ContractRef(name="plan_proposal", version=1),
        context=Context(
            instructions="Propose one change that fixes the finding.",
            facts=(
                Fact(name="repository", value=finding.repository),
                Fact(name="finding", value=finding.text),
            ),
        ),
    )
    await broker.publish(request, f"{PREFIX}.requests.v1", key=request.workflow_id.encode())


if __name__ == "__main__":
    asyncio.run(app.run())

"""A subscriber that a test kills: it names each item, and never finishes the second."""

import asyncio
import sys

from answerbus.answers.plan_proposal import PlanProposal
from answerbus.client import Client
from answerbus.envelope import Undecodable


async def subscribe(bootstrap: str, prefix: str) -> None:
    async with (
        Client(bootstrap, topic_prefix=prefix) as client,
        client.subscribe(
            response_model=PlanProposal, group_id="billing", session_timeout_ms=6_000
        ) as outcomes,
    ):
        count = 0
        async for item in outcomes:
            assert not isinstance(item, Undecodable)
            print(item.request_id, flush=True)  # noqa: T201 - the test reads it
            count += 1
            if count == 2:
                await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(subscribe(*sys.argv[1:]))

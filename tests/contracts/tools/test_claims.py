"""Claims of a tool server where commits fail and partitions are revoked."""

import asyncio
from collections.abc import Mapping

from answerbus.tools.channel import ClaimLost
from answerbus.tools.claims import Claims
from answerbus.tools.core.positions import PartitionPositions, Position
from tests.contracts.tools.channel_in_memory import Broker, MemoryChannel


class SlowCommit(MemoryChannel):
    """The first commit waits for `first`, and fails if that does."""

    def __init__(self) -> None:
        super().__init__(Broker())
        self.first: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.begun = asyncio.Event()

    async def commit(self, positions: Mapping[int, Position]) -> None:
        if not self.begun.is_set():
            self.begun.set()
            await self.first


async def claimed_during_a_revocation(error: ClaimLost | None) -> BaseException | None:
    """How a claim ends that waits for the commit of a partition which is taken away."""
    channel = SlowCommit()
    claims = Claims(channel)
    claims.assigned({0: Position(0, "")})
    claimed, other = begun(claims, 0), begun(claims, 1)
    claims.finish(other, 1)
    revoking = asyncio.create_task(claims.revoked([0]))
    await channel.begun.wait()
    often = asyncio.create_task(claims.commit())
    await asyncio.sleep(0)
    claiming = asyncio.create_task(claims.claim(0, [(claimed, 0)]))
    await asyncio.sleep(0)
    if error:
        channel.first.set_exception(error)
    else:
        channel.first.set_result(None)
    _, _, ended = await asyncio.gather(revoking, often, claiming, return_exceptions=True)
    return ended


def begun(claims: Claims, offset: int) -> PartitionPositions:
    positions = claims.begin(0, offset, offset + 1)
    assert positions is not None
    return positions


async def test_what_others_commit_later_is_no_claim_of_a_partition_that_is_gone() -> None:
    assert isinstance(await claimed_during_a_revocation(ClaimLost("gone")), ClaimLost)


async def test_a_claim_after_the_last_commit_of_a_partition_is_lost() -> None:
    assert isinstance(await claimed_during_a_revocation(None), ClaimLost)

"""Memory of clients that were closed is freed, once for all that close together."""

import asyncio
import gc

import pytest

from services.worker.adapters.kafka.lane_factory import COLLECT_AFTER_S, ClosedClients
from tests.unit.worker.lane.virtual import run


def test_one_search_is_for_all_that_close_together(monkeypatch: pytest.MonkeyPatch) -> None:
    searches: list[float] = []

    async def main() -> None:
        loop, closed = asyncio.get_running_loop(), ClosedClients()
        began = loop.time()
        monkeypatch.setattr(gc, "collect", lambda: searches.append(loop.time() - began))
        for _ in range(3):
            closed.note()
            await asyncio.sleep(COLLECT_AFTER_S / 4)
        await asyncio.sleep(2 * COLLECT_AFTER_S)
        closed.note()
        await asyncio.sleep(2 * COLLECT_AFTER_S)

    run(main())
    assert len(searches) == 2
    assert searches[0] == pytest.approx(COLLECT_AFTER_S)

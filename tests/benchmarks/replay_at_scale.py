"""Many dead letters replayed, with three kills: `python -m tests.benchmarks.replay_at_scale 5000`.

With `groups` behind the number they are grouped only.
"""

import asyncio
import sys
import tempfile
import uuid
from pathlib import Path

from infra.kafka import start_broker
from tests.integration.bus import Bus, create_topics
from tests.integration.dead_letters import dead_letters, publish
from tests.integration.replaying import Figures, Replay, grouped_s, killed_three_times

PARTITIONS = 12
DEAD_LETTERS_DEFAULT = 5_000


async def measured(bootstrap: str, folder: Path, count: int, what: str) -> Figures | float:
    """The figures, once all that must hold was found to hold; of groups, seconds."""
    bus = Bus(bootstrap, f"scale-{uuid.uuid4().hex[:8]}", PARTITIONS, folder)
    await create_topics(bus)
    if what == "groups":
        found = dead_letters(count)
        await publish(bus, found)
        return await grouped_s(Replay(bus), found)
    try:
        return await killed_three_times(bus, Replay(bus), count, folder / "repair")
    finally:
        bus.stop_workers()


def main() -> None:
    """Print the figures."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else DEAD_LETTERS_DEFAULT
    what = sys.argv[2] if len(sys.argv) > 2 else "all"
    with tempfile.TemporaryDirectory() as name:
        broker = start_broker(Path(name) / "kafka")
        try:
            servers = broker.bootstrap_servers
            print(asyncio.run(measured(servers, Path(name), count, what)))  # noqa: T201
        finally:
            broker.stop()


if __name__ == "__main__":
    main()

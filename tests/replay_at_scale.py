"""Replays of thousands of dead letters with three kills: `python -m tests.replay_at_scale 5000`."""

import asyncio
import sys
import tempfile
import uuid
from pathlib import Path

from infra.kafka import start_broker
from tests.integration.bus import Bus, create_topics
from tests.integration.replaying import Figures, Replay, killed_thrice

PARTITIONS = 12
LETTERS_DEFAULT = 5_000


async def measured(bootstrap: str, folder: Path, count: int) -> Figures:
    """The figures, once all that must hold was found to hold."""
    bus = Bus(bootstrap, f"scale-{uuid.uuid4().hex[:8]}", PARTITIONS, folder)
    await create_topics(bus)
    try:
        return await killed_thrice(bus, Replay(bus), count, folder / "repair")
    finally:
        bus.stop_workers()


def main() -> None:
    """Print the figures."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else LETTERS_DEFAULT
    with tempfile.TemporaryDirectory() as name:
        broker = start_broker(Path(name) / "kafka")
        try:
            print(asyncio.run(measured(broker.bootstrap_servers, Path(name), count)))  # noqa: T201
        finally:
            broker.stop()


if __name__ == "__main__":
    main()

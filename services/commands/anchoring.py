"""`answerbus audit anchor`: signs the heads of all chains, into a file elsewhere and a topic."""

import asyncio
from pathlib import Path
from typing import Annotated

import typer

from answerbus.client.bus import Bus
from answerbus.topics import STEPS
from services.command_line import Config, bus_of, stderr, stdout
from services.commands.private_records import hidden_runs
from services.operator_options import By, now, operator
from services.operators.adapters.evidence import anchor as write_anchor
from services.operators.adapters.signing import EvidenceSigner, signer_of
from services.settings.settings import SetUpError, from_environment
from services.text.escaping import plain_line

Key = Annotated[
    str, typer.Option("--key", metavar="FILE", help="Private key of Ed25519, or plugin:NAME.")
]
Folder = Annotated[
    Path,
    typer.Option("--out", metavar="FOLDER", help="A folder away from Kafka; a file each time."),
]
ToTopic = Annotated[
    str | None,
    typer.Option("--topic", metavar="NAME", help="Also write the statements to this topic."),
]
Every = Annotated[
    float | None,
    typer.Option("--every", min=60, metavar="SECONDS", help="Repeat it so often; Ctrl-C ends it."),
]


def anchor(
    *,
    key: Key,
    out: Folder,
    topic: ToTopic = None,
    every: Every = None,
    by: By = None,
    config: Config = None,
) -> None:
    """Sign the heads of all accounts and runs, so that a chain that is cut later is found.

    The file has every head; the topic, which must exist, a signed digest of the file.
    """
    if not out.is_dir():
        raise typer.BadParameter(f"--out: {out} is not a folder.")
    bus, signer = bus_of(from_environment(config).kafka), signer_of(key)
    asyncio.run(_anchor(bus, signer, operator(by), out, topic, every))


async def _anchor(
    bus: Bus, signer: EvidenceSigner, by: str, out: Path, topic: str | None, every: float | None
) -> None:
    if topic is not None and not await bus.has_topic(topic):  # Kafka might make one by itself
        raise SetUpError(f"There is no topic {topic}: create it, for `audit anchor` alone.")
    while True:
        path, statement = await write_anchor(bus, out, signer, by, now)
        if topic is not None:
            await _publish(bus, topic, statement)
        stdout().print(plain_line(str(path)), markup=False)
        if hidden := await hidden_runs(bus, (STEPS,), "auditor"):
            stderr().print(hidden, style="yellow", markup=False)
        if every is None:
            return
        await asyncio.sleep(every)


async def _publish(bus: Bus, topic: str, statement: bytes) -> None:
    async with bus.running(bus.producer()) as producer:
        with bus.explained():
            await producer.send_and_wait(topic, statement)

"""`answerbus lanes`: shows why a lane stays shut, and skips records that no worker can read."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Annotated, Literal

import typer
from rich.text import Text

from answerbus.client.bus import Bus
from answerbus.envelope import REPLAY_SOURCE, encode
from answerbus.limits import REASON_BYTES_MAX
from answerbus.private.ledger import Skipped
from answerbus.topics import LEDGER, RETRIES, RUNS
from answerbus.wire import bytes_digest, clip, format_timestamp
from services.command_line import AsJson, Config, bus_of, stderr, stdout
from services.commands.private_records import (
    LaneContents,
    Unreadable,
    hidden_runs,
    lanes,
    meaning,
    record_at,
)
from services.operator_options import By, Reason, now, operator
from services.operators.records.stored import RecordPosition, Stored
from services.records.private_topics import excerpt
from services.settings.settings import from_environment
from services.text.escaping import json_lines, plain

EXIT_SHUT = 1
TopicName = Literal["ledger", "retries", "runs"]
_TOPICS = {"ledger": LEDGER, "retries": RETRIES, "runs": RUNS}

app = typer.Typer(help="Show lanes, and what keeps one of them shut.", no_args_is_help=True)

Partition = Annotated[int, typer.Option(min=0, help="The partition of the record.")]
Offset = Annotated[int, typer.Option(min=0, help="The offset of the record.")]
OfNewer = Annotated[
    bool,
    typer.Option("--newer-version", help="Also one that a newer version of answerbus has written."),
]


@app.command()
def show(
    *,
    partition: Annotated[int | None, typer.Option(min=0, help="This lane alone.")] = None,
    as_json: AsJson = False,
    config: Config = None,
) -> None:
    """Show who has which lane, and the private records that no worker can read.

    Exit code 1: one of them keeps its lane shut, or the right to read those of runs is missing.
    """
    settings = from_environment(config).kafka
    chosen = None if partition is None else (partition,)
    with stderr().status("reading"):
        found, hidden = asyncio.run(_all(bus_of(settings), chosen))
    if not found and partition is not None:
        raise typer.BadParameter(f"There is no lane {partition}.", param_hint="--partition")
    if as_json:
        typer.echo(json_lines([_as_data(one, settings.topic_prefix) for one in found]))
    else:
        for lane in found:
            for line in _lines(lane, settings.topic_prefix):
                stdout().print(line)
    if hidden:
        stderr().print(hidden, style="red", markup=False)
    if hidden or any(one.skipped is None for lane in found for one in lane.unreadable):
        raise typer.Exit(EXIT_SHUT)


@app.command()
def skip(
    *,
    topic: Annotated[TopicName, typer.Option(help="The topic of the record.")],
    partition: Partition,
    offset: Offset,
    reason: Reason,
    by: By = None,
    newer_version: OfNewer = False,
    config: Config = None,
) -> None:
    """Skip a private record that no worker can read; who, when and why is kept beside it.

    Workers look for it every 10 s, and open the lane. Exit code 1: it may not be skipped.
    """
    bus = bus_of(from_environment(config).kafka)
    place = RecordPosition(_TOPICS[topic], partition, offset)
    refused = asyncio.run(_skip(bus, place, reason, operator(by), of_newer=newer_version))
    if refused:
        stderr().print(refused, style="red", markup=False)
        raise typer.Exit(EXIT_SHUT)


async def _all(bus: Bus, chosen: Sequence[int] | None) -> tuple[list[LaneContents], str | None]:
    return [found async for found in lanes(bus, chosen)], await hidden_runs(bus)


async def _skip(
    bus: Bus, place: RecordPosition, reason: str, by: str, *, of_newer: bool
) -> str | None:
    """Write it down, or say why not."""
    if place.topic is RUNS and (hidden := await hidden_runs(bus, role="worker")):
        return hidden
    found = await record_at(bus, place)
    match found:
        case None:
            return "There is no record at this offset: `answerbus lanes show` lists those."
        case Stored():
            return "Workers can read this record: skipped, what it says would be lost."
        case Unreadable(skipped=Skipped() as earlier):
            message = f"It was skipped already, by {earlier.by}: {earlier.reason}"
            stdout().print(plain(message), markup=False)
            return None
        case Unreadable(fault=fault, stored=stored) if fault.is_newer and not of_newer:
            return (
                "A newer version of answerbus has written this record: run that version, and the "
                f"lane opens. Skipped, it is lost: {meaning(stored)}. If that is what you want, "
                "add --newer-version."
            )
        case Unreadable():
            await _write(bus, found, reason, by)
            stdout().print(f"Skipped. Lost with it: {meaning(found.stored)}.", markup=False)
            return None


async def _write(bus: Bus, found: Unreadable, reason: str, by: str) -> None:
    stored = found.stored
    record = encode(
        Skipped(
            offset=stored.offset,
            digest=bytes_digest(stored.value or b""),
            problem=clip(found.fault.text, REASON_BYTES_MAX),
            by=clip(by, REASON_BYTES_MAX),
            reason=clip(reason, REASON_BYTES_MAX),
            at=now(),
        ),
        source=REPLAY_SOURCE,
    )
    at = bus.place(stored.topic, stored.partition)
    async with bus.running(bus.producer()) as producer:
        with bus.explained():
            await producer.send_and_wait(
                at.topic, record.value, record.key, at.partition, headers=record.headers
            )


def _lines(found: LaneContents, prefix: str) -> list[Text]:
    lane, name = found.lane, f"lane {found.partition}"
    if lane is None:
        message = "was never opened"
    else:
        group = f" of the group {lane.group}" if lane.group else ""
        message = f"opened by {lane.worker}{group}, last write at {format_timestamp(lane.at)}"
    shut = any(one.skipped is None for one in found.unreadable)
    lines = [Text.assemble((name, "bold red" if shut else "bold"), f" {plain(message)}")]
    for one in found.unreadable:
        stored = one.stored
        where = f"{stored.topic.full_name(prefix)}, partition {stored.partition}"
        lines += [
            Text(f"  {where}, offset {stored.offset} cannot be read: {plain(one.fault.text)}"),
            Text(f"    key {excerpt(stored.key)}, {len(stored.value or b'')} bytes", "dim"),
            Text(f"    value {excerpt(stored.value)}", "dim"),
            Text(f"    {_remedy(one)}"),
        ]
    return lines


def _remedy(one: Unreadable) -> str:
    stored = one.stored
    if one.skipped:
        at = format_timestamp(one.skipped.at)
        return plain(f"skipped at {at} by {one.skipped.by}: {one.skipped.reason}")
    if one.fault.is_newer:
        return "a newer version of answerbus has written it: run that version"
    where = f"--topic {stored.topic.name} --partition {stored.partition} --offset {stored.offset}"
    return f"answerbus lanes skip {where} --reason '…'; lost with it: {meaning(stored)}"


def _as_data(found: LaneContents, prefix: str) -> Mapping[str, object]:
    lane = found.lane
    return {
        "partition": found.partition,
        "lane": None if lane is None else lane.model_dump(mode="json"),
        "unreadable": [
            {
                "topic": one.stored.topic.full_name(prefix),
                "partition": one.stored.partition,
                "offset": one.stored.offset,
                "at": format_timestamp(one.stored.at),
                "key": excerpt(one.stored.key),
                "bytes": len(one.stored.value or b""),
                "excerpt": excerpt(one.stored.value),
                "problem": one.fault.text,
                "newer_version": one.fault.is_newer,
                "lost_if_skipped": meaning(one.stored),
                "skipped": one.skipped and one.skipped.model_dump(mode="json"),
            }
            for one in found.unreadable
        ],
    }

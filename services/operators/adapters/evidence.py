"""Writes evidence packs and anchors of heads, from what the topics hold."""

import hashlib
import zipfile
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import BinaryIO

from pydantic import JsonValue

from answerbus.client.bus import Bus
from answerbus.envelope import decode
from answerbus.evidence.pack_file import ANCHOR_DOMAIN, FILES, MANIFEST_BYTES_MAX, PACK_DOMAIN
from answerbus.private.runs import RunRecord
from answerbus.request import InlineRef, Request
from answerbus.step import Step, ToolEnded
from answerbus.topics import (
    ATTEMPTS,
    LEDGER,
    OUTCOMES,
    REQUESTS,
    RUN_TOPICS,
    RUNS,
    STEPS,
    Topic,
)
from answerbus.wire import format_timestamp
from services.operators.adapters.reader import Reader, reading
from services.operators.adapters.signing import EvidenceSigner
from services.operators.adapters.whole_file import whole_file
from services.operators.audit.claims import ClaimedSpending
from services.operators.audit.evidence import (
    PackContents,
    PackScope,
    anchor_line,
    anchor_statement,
    body_of,
    manifest,
    record_line,
    text_line,
)
from services.operators.records.stored import Stored
from services.operators.timeline.timeline import may_concern
from services.text.digest import canonical, canonical_digest, text_digest

TOPICS_OF_FILE: Mapping[str, tuple[Topic, ...]] = {
    "attempts": (ATTEMPTS,),
    "steps": (STEPS,),
    "outcomes": OUTCOMES,
}
PACK_BYTES_MAX = 2_000 * 1024 * 1024  # more is a zip of another form, which verifiers refuse
_OPTIONAL = (*RUN_TOPICS, REQUESTS)  # where schemas are looked for; the pack names those not found
_TEXT_SCHEMA: JsonValue = {"type": "string"}


class PackTooLarge(Exception):
    """No verifier would read the pack."""

    def __init__(self, what: str = "It", bytes_max: int = PACK_BYTES_MAX) -> None:
        super().__init__(
            f"{what} would have more than {bytes_max:,} bytes: export a shorter time, or fewer "
            "workflows."
        )


@dataclass(frozen=True, slots=True)
class EvidenceOrder:
    """What is exported or anchored, by whom, and with which key."""

    scope: PackScope
    signer: EvidenceSigner
    at: datetime
    by: str
    remember_s: float
    since: datetime | None = None


@dataclass(slots=True)
class Exported:
    """The lines of each file, and the digests of definitions and schemas that were not found."""

    lines: dict[str, int] = field(default_factory=dict)
    unknown: set[str] = field(default_factory=set)


class _Pack:
    """A zip that is written, one file after the other."""

    def __init__(self, archive: zipfile.ZipFile, file: BinaryIO) -> None:
        self._archive, self._file = archive, file
        self.files: dict[str, dict[str, str | int]] = {}

    async def write(self, name: str, lines: AsyncIterator[bytes]) -> None:
        """Raises PackTooLarge."""
        digest, size, count = hashlib.sha256(), 0, 0
        with self._archive.open(f"{name}.jsonl", "w", force_zip64=True) as file:
            async for line in lines:
                file.write(line)
                digest.update(line)
                size, count = size + len(line), count + 1
                if self._file.tell() > PACK_BYTES_MAX:
                    raise PackTooLarge
        self.files[name] = {"sha256": digest.hexdigest(), "bytes": size, "lines": count}

    def seal(self, text: bytes, signer: EvidenceSigner) -> None:
        """Raises PackTooLarge."""
        if len(text) > MANIFEST_BYTES_MAX:
            what = "Its manifest, with digests of schemas that are not kept,"
            raise PackTooLarge(what, MANIFEST_BYTES_MAX)
        self._archive.writestr("manifest.json", text)
        self._archive.writestr("manifest.sig", signer.sign(PACK_DOMAIN + text).hex() + "\n")


async def export(bus: Bus, path: Path, order: EvidenceOrder, texts: Mapping[str, str]) -> Exported:
    """Write the pack; `texts` are known definitions and schemas by digest.

    Attempts first: records that name one are written after it. Raises BusUnavailable, PackTooLarge,
    FileExistsError.
    """
    with whole_file(path, is_new=True) as file:  # a part of a pack would look like a forgery
        return await _written(bus, file, order, texts)


async def _written(
    bus: Bus, file: BinaryIO, order: EvidenceOrder, texts: Mapping[str, str]
) -> Exported:
    scope, contents, known = order.scope, PackContents(), dict(texts)
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        pack = _Pack(archive, file)
        for name, topics in TOPICS_OF_FILE.items():
            await pack.write(name, _records(bus, name, topics, order, contents))
        known.update(await _texts(bus, scope.workflow_id, contents))
        for name, wanted in (("definitions", contents.definitions), ("schemas", contents.schemas)):
            found = [text_line(digest, known[digest]) for digest in sorted(wanted & known.keys())]
            await pack.write(name, _each(found))
        await pack.write("heads", _each(contents.heads()))
        reaches = {name: await _reach(bus, TOPICS_OF_FILE[name], order) for name in contents.chains}
        unknown = (contents.definitions | contents.schemas) - known.keys()
        about = {"key": order.signer.public_key, "by": order.by, "prefix": bus.prefix}
        text = manifest(
            scope,
            {name: pack.files[name] for name in FILES},
            unknown,
            at=format_timestamp(order.at),
            remember_s=order.remember_s,
            reaches=reaches,
            **about,  # type: ignore[arg-type]
        )
        pack.seal(text, order.signer)
    return Exported({name: int(it["lines"]) for name, it in pack.files.items()}, unknown)


async def _each(lines: Iterable[bytes]) -> AsyncIterator[bytes]:
    for line in lines:
        yield line


async def _records(
    bus: Bus, name: str, topics: Collection[Topic], order: EvidenceOrder, contents: PackContents
) -> AsyncIterator[bytes]:
    async for stored in _read(bus, topics, order.scope.workflow_id, order.since):
        workflow_id = order.scope.workflow_id
        if stored.value is None or (workflow_id and not may_concern(workflow_id, stored)):
            continue
        body = body_of(stored.value, workflow_id)
        if body is not None:
            contents.take(name, body)
            yield record_line(stored.value)


async def _read(
    bus: Bus, topics: Collection[Topic], workflow_id: str | None, since: datetime | None = None
) -> AsyncIterator[Stored]:
    present = await _there(bus, topics)
    if not present:
        return
    async with reading(bus, present, workflow_id=workflow_id, since=since) as reader:
        for topic in present:
            # A move leaves an account's attempts in several partitions: the oldest are its first.
            async for stored in reader.oldest_first(topic, reader.partitions):
                yield stored


async def _there(bus: Bus, topics: Collection[Topic]) -> Sequence[Topic]:
    """All but the optional ones that are not there: to read another that is hidden fails."""
    optional = [topic for topic in topics if topic in _OPTIONAL]
    return (*(topic for topic in topics if topic not in optional), *await bus.present(*optional))


async def _reach(bus: Bus, topics: Collection[Topic], order: EvidenceOrder) -> str | None:
    """Since when all records are there: retention may have deleted older ones. None: always."""
    found = [order.since] if order.since else []
    if present := await _there(bus, topics):
        async with reading(bus, present, workflow_id=order.scope.workflow_id) as reader:
            for partition in reader.partitions:
                cut = await reader.cut(partition)
                found += [await _begin(reader, one, partition) or order.at for one in cut]
    return max(map(format_timestamp, found), default=None)


async def _begin(reader: Reader, topic: Topic, partition: int) -> datetime | None:
    async for batch in reader.to_end((topic,), partition):
        return batch[0].at
    return None


async def _texts(bus: Bus, workflow_id: str | None, contents: PackContents) -> Mapping[str, str]:
    """Definitions of runs, and schemas in requests, of those that the pack names."""
    found = {canonical_digest(_TEXT_SCHEMA): canonical(_TEXT_SCHEMA).decode()}
    async for stored in _read(bus, (RUNS, REQUESTS), workflow_id):
        match decode(stored.value, stored.headers):
            case RunRecord(definition=definition):
                text = definition.model_dump_json()
                if (digest := text_digest(text)) in contents.definitions:
                    found[digest] = text
            case Request(answer_schema=InlineRef(json_schema=schema)):
                if (digest := canonical_digest(schema)) in contents.schemas:
                    found[digest] = canonical(schema).decode()
            case _:
                pass
    return found


async def anchor(
    bus: Bus, folder: Path, signer: EvidenceSigner, by: str, now: Callable[[], datetime]
) -> tuple[Path, bytes]:
    """Sign the heads of all accounts and runs; gives the file, and the signed statement.

    Its time is after the reading: a pack that is made later has all of them. Raises BusUnavailable,
    FileExistsError.
    """
    text = b"".join(sorted([anchor_line(*head) async for head in _heads(bus)]))
    digest, at = hashlib.sha256(text).hexdigest(), format_timestamp(now())
    statement = anchor_statement(digest, key=signer.public_key, at=at, by=by, prefix=bus.prefix)
    signature = signer.sign(ANCHOR_DOMAIN + statement).hex().encode()
    signed = statement + b"\n" + signature + b"\n"
    path = folder / f"anchor-{at.replace(':', '')}.jsonl"
    with whole_file(path, is_new=True) as file:
        file.write(signed + text)
    return path, signed


async def _heads(bus: Bus) -> AsyncIterator[tuple[str, tuple[str, ...], str]]:
    """The ledger's heads of accounts, and the last records of runs."""
    claims = ClaimedSpending()
    async for stored in _read(bus, (LEDGER,), None):
        claims.take(stored)
    for account_id, balance in claims.balances().items():
        if balance.head is not None:
            yield "attempts", (account_id,), balance.head
    runs: dict[tuple[str, ...], str] = {}
    async for stored in _read(bus, (STEPS,), None):
        event = decode(stored.value, stored.headers)
        if isinstance(event, Step | ToolEnded):
            runs[event.workflow_id, event.request_id] = event.hash
    for name, head in runs.items():
        yield "steps", name, head

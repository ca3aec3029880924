"""Evidence of real topics: exported, anchored and checked by the commands."""

import asyncio
from pathlib import Path

from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)

from answerbus.evidence.ed25519 import key_of
from answerbus.evidence.pack_file import PackFinding
from answerbus.evidence.verifier import EvidenceReport, verify
from tests.contracts.evidence.packs import KEY
from tests.integration.bus import Bus
from tests.integration.command_line import answerbus


def keys(folder: Path) -> tuple[str, str]:
    """The paths of a private and of its public key, as openssl writes them."""
    private, public = folder / "key.pem", folder / "key.pub.pem"
    private.write_bytes(KEY.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    form = PublicFormat.SubjectPublicKeyInfo
    public.write_bytes(KEY.public_key().public_bytes(Encoding.PEM, form))
    return str(private), str(public)


async def anchored(bus: Bus, folder: Path, *options: str) -> Path:
    private, _ = keys(folder)
    given = ("--key", private, "--out", str(folder), *options)
    done = await answerbus(bus.bootstrap, bus.prefix, "audit", "anchor", *given)
    assert done.code == 0, done.err
    return Path(done.out.strip())


async def exported(bus: Bus, folder: Path, *scope: str) -> tuple[Path, str]:
    """A pack, and what the command says of what it did not find."""
    private, _ = keys(folder)
    pack = folder / f"{'-'.join(scope).strip('-')}.zip"
    given = ("--key", private, "--out", str(pack), *scope)
    done = await answerbus(bus.bootstrap, bus.prefix, "evidence", "export", *given)
    assert done.code == 0, done.err
    return pack, done.err


async def checked(folder: Path, pack: Path, *anchors: Path) -> EvidenceReport:
    return await asyncio.to_thread(verify, pack, [_public(folder)], anchors)


def _public(folder: Path) -> bytes:
    _, public = keys(folder)
    key = key_of(Path(public).read_bytes())
    assert key is not None
    return key


async def is_whole(bus: Bus, folder: Path, *scope: str) -> dict[str, int]:
    """Export and check; gives how many lines each file of the pack has."""
    anchor = await anchored(bus, folder)
    pack, unknown = await exported(bus, folder, *scope)
    report = await checked(folder, pack, anchor)
    anchor.unlink()
    assert report.findings == list[PackFinding]()
    assert unknown == ""
    return report.lines

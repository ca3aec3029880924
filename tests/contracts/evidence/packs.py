"""Evidence packs for tests: whole ones, and forgeries by one who has the key."""

import hashlib
import json
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from answerbus.evidence.pack_file import ANCHOR_DOMAIN, FILES, PACK_DOMAIN
from services.operators.audit.evidence import (
    PackContents,
    PackScope,
    anchor_line,
    anchor_statement,
    line_of,
    manifest,
    text_line,
)
from services.text.digest import record_digest, text_digest

WORKFLOW = "w-0"
KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
OTHER_KEY = Ed25519PrivateKey.from_private_bytes(bytes(32))
DEFINITION = '{"name":"support","version":1}'
SCHEMA = '{"type":"string"}'
AT = "2026-11-26T10:00:00.000Z"

Files = dict[str, list[bytes]]
Record = dict[str, Any]


def public(key: Ed25519PrivateKey = KEY) -> bytes:
    return key.public_key().public_bytes_raw()


def record(previous: str | None, **fields: Any) -> Record:
    body = {"workflow_id": WORKFLOW, **fields, "previous": previous}
    return {**body, "hash": record_digest(body)}


def chain(count: int, **fields: Any) -> list[Record]:
    """So many records, each linked to the one before it."""
    found: list[Record] = []
    for n in range(1, count + 1):
        previous = found[-1]["hash"] if found else None
        at = {"started_at": f"2026-11-2{n % 10}T10:00:00.000Z", "at": AT}
        found.append(record(previous, n=n, cost=0.1 * n, said="ü", **at, **fields))
    return found


def attempts(count: int = 6, account_id: str = WORKFLOW) -> list[Record]:
    about = {"kind": "attempt", "account_id": account_id, "schema_digest": text_digest(SCHEMA)}
    return chain(count, request_id="r-1", **about)


def steps(count: int = 4) -> list[Record]:
    agent = {"name": "support", "version": 1, "digest": text_digest(DEFINITION)}
    return chain(count, kind="step", request_id="r-1", agent=agent)


def lines(records: Sequence[Record]) -> list[bytes]:
    return [line_of(one) for one in records]


def files_of(*, attempts: Sequence[Record], steps: Sequence[Record]) -> Files:
    """The files of a pack; the heads are those of the records as they are here."""
    contents = PackContents()
    for name, records in (("attempts", attempts), ("steps", steps)):
        for one in records:
            contents.take(name, one)
    outcome: Record = {"kind": "result", "workflow_id": WORKFLOW, "request_id": "r-1"}
    return {
        "attempts": lines(attempts),
        "steps": lines(steps),
        "outcomes": [line_of(outcome)],
        "definitions": [text_line(text_digest(DEFINITION), DEFINITION)],
        "schemas": [text_line(text_digest(SCHEMA), SCHEMA)],
        "heads": [*contents.heads()],
    }


def whole() -> Files:
    return files_of(attempts=attempts(), steps=steps())


def signed(
    files: Files,
    key: Ed25519PrivateKey = KEY,
    workflow_id: str | None = WORKFLOW,
    reaches: str | None = None,
) -> dict[str, bytes]:
    """The members of a pack of these files, whose topics go back to `reaches`."""
    found = {f"{name}.jsonl": b"".join(files[name]) for name in FILES}
    said: dict[str, dict[str, str | int]] = {
        name: {
            "sha256": hashlib.sha256(found[f"{name}.jsonl"]).hexdigest(),
            "bytes": len(found[f"{name}.jsonl"]),
            "lines": len(files[name]),
        }
        for name in FILES
    }
    about: Record = {"at": AT, "by": "ops", "prefix": "answerbus", "remember_s": 7 * 86_400.0}
    about["reaches"] = {"attempts": reaches, "steps": None}
    scope = PackScope(workflow_id)
    text = manifest(scope, said, set(), key=public(key), **about)
    return signed_manifest(found, text, key)


def signed_manifest(
    members: dict[str, bytes], text: bytes, key: Ed25519PrivateKey = KEY
) -> dict[str, bytes]:
    signature = key.sign(PACK_DOMAIN + text).hex().encode()
    return {**members, "manifest.json": text, "manifest.sig": signature}


def written(path: Path, members: dict[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> Path:
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path


def anchored(
    path: Path, records: Sequence[Record], key: Ed25519PrivateKey = KEY, at: str = AT
) -> Path:
    """The head of the account's chain, as it was signed at that time."""
    text = anchor_line("attempts", (records[-1]["account_id"],), records[-1]["hash"])
    digest = hashlib.sha256(text).hexdigest()
    about = {"key": public(key), "at": at, "by": "ops", "prefix": "answerbus"}
    statement = anchor_statement(digest, **about)  # type: ignore[arg-type]
    signature = key.sign(ANCHOR_DOMAIN + statement).hex().encode()
    path.write_bytes(statement + b"\n" + signature + b"\n" + text)
    return path


def changed(line: bytes, change: Callable[[Record], None], *, rehash: bool = False) -> bytes:
    body: Record = json.loads(line)
    change(body)
    if rehash:
        body["hash"] = record_digest(body)
    return line_of(body)

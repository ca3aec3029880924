"""What an evidence pack says of its records: lines, heads of chains, and its manifest; pure."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import JsonValue

from answerbus import json_text
from answerbus.evidence.chains import ChainCheck


@dataclass(frozen=True, slots=True)
class PackScope:
    """The workflow of a pack, or its beginning by Kafka's clock."""

    workflow_id: str | None = None
    since: str | None = None


@dataclass(slots=True)
class PackContents:
    """The chains that were written so far, and the digests that their records name."""

    chains: Mapping[str, ChainCheck] = field(
        default_factory=lambda: {
            "attempts": ChainCheck(at="started_at"),
            "steps": ChainCheck(at="at"),
        }
    )
    schemas: set[str] = field(default_factory=set)
    definitions: set[str] = field(default_factory=set)

    def take(self, file: str, body: Mapping[str, Any]) -> None:
        """A record that is written into that file."""
        if "hash" not in body or file not in self.chains:
            return  # what people were asked and said is in no chain
        if file == "attempts":
            name: tuple[str, ...] = (str(body.get("account_id")),)
            if schema := body.get("schema_digest"):
                self.schemas.add(str(schema))
        else:
            name = (str(body.get("workflow_id")), str(body.get("request_id")))
            if isinstance(agent := body.get("agent"), dict):
                self.definitions.add(str(agent.get("digest")))
        self.chains[file].follow(name, dict(body), 0)

    def heads(self) -> Iterator[bytes]:
        """A line for each chain."""
        for file, check in self.chains.items():
            for name, chain in check.chains.items():
                yield line_of(
                    {
                        "chain": file,
                        "of": [*name],
                        "begins": chain.begins,
                        "records": chain.count,
                        "head": chain.head,
                    }
                )


def body_of(value: bytes, workflow_id: str | None) -> dict[str, JsonValue] | None:
    """The JSON object in a record, if it is one and of that workflow."""
    parsed = json_text.parse(value)
    if not isinstance(parsed, json_text.Parsed) or not isinstance(parsed.value, dict):
        return None
    is_wanted = workflow_id in (None, parsed.value.get("workflow_id"))
    return parsed.value if is_wanted else None


def record_line(value: bytes) -> bytes:
    """The record as it is, on one line."""
    return (value if b"\n" not in value else _compact(json.loads(value))) + b"\n"


def line_of(body: JsonValue) -> bytes:
    return _compact(body) + b"\n"


def text_line(digest: str, text: str) -> bytes:
    """A definition or a schema whose digest is that of this text."""
    return line_of({"digest": digest, "text": text})


def _compact(body: JsonValue) -> bytes:
    return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode(
        errors="surrogatepass"
    )


def manifest(
    scope: PackScope,
    files: Mapping[str, Mapping[str, str | int]],
    unknown: set[str],
    *,
    key: bytes,
    at: str,
    by: str,
    prefix: str,
    remember_s: float,
    reaches: Mapping[str, str | None],
) -> bytes:
    """What is signed. `reaches` says of each chained file since when it is whole; None: always."""
    said: dict[str, Any] = {
        "kind": "evidence",
        "version": 1,
        "workflow_id": scope.workflow_id,
        "since": scope.since,
        "topic_prefix": prefix,
        "at": at,
        "by": by,
        "key": key.hex(),
        "remember_s": remember_s,
        "reaches_back_to": reaches,
        "unknown_digests": sorted(unknown),
        "files": files,
    }
    return json.dumps(said, indent=1, ensure_ascii=False).encode() + b"\n"


def anchor_statement(digest: str, *, key: bytes, at: str, by: str, prefix: str) -> bytes:
    """What is signed of all heads at one moment, on one line."""
    said: dict[str, JsonValue] = {
        "kind": "anchor",
        "version": 1,
        "topic_prefix": prefix,
        "at": at,
        "by": by,
        "sha256": digest,
        "key": key.hex(),
    }
    return _compact(said)


def anchor_line(chain: str, name: tuple[str, ...], head: str) -> bytes:
    return line_of({"chain": chain, "of": [*name], "head": head})

"""Checks an evidence pack: its signature, files, chains, heads, definitions, and anchors of heads.

Python's standard library is all that it needs: auditors need not trust what workers are made of.
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from answerbus.evidence.anchor_file import anchor_of
from answerbus.evidence.anchored_heads import AnchoredHeads
from answerbus.evidence.chains import ChainCheck, ChainName, kinds_of
from answerbus.evidence.pack_file import (
    FILES,
    PackFinding,
    UnusablePack,
    lines_of,
    manifest_of,
    opened,
)
from answerbus.evidence.record_digest import NO_OBJECT, record_of

FINDINGS_MAX = 100  # that are named; what is beyond is counted
_WORDS = {
    "duplicated_record": "the very record is there before",
    "fork": "another record follows the same one, or its chain begins twice",
    "dropped_record": "the record before it is missing",
    "reordered_record": "it is not in its place",
}


@dataclass
class EvidenceReport:
    """The lines that were read, and the findings; of many only the first are kept."""

    findings: list[PackFinding] = field(default_factory=list)
    count: int = 0
    lines: dict[str, int] = field(default_factory=lambda: dict.fromkeys(FILES, 0))
    later_anchors: int = 0  # than the pack, which say nothing about it

    def add(self, kind: str, place: str, text: str) -> None:
        """Note what is wrong."""
        self.count += 1
        if len(self.findings) < FINDINGS_MAX:
            self.findings.append(PackFinding(kind, place, text))


def verify(path: Path, keys: Sequence[bytes], anchors: Sequence[Path] = ()) -> EvidenceReport:
    """Read a pack once; a second time if a chain is broken, to say how. Raises OSError."""
    report = EvidenceReport()
    try:
        with path.open("rb") as file, opened(file) as pack:
            check = _Check(report, manifest_of(pack, keys))
            for anchor in anchors:
                check.anchored.add(anchor_of(anchor, keys))
            changed = [name for name in FILES if not check.file(pack, name)]
            check.name_mismatches(pack)
        if len(changed) == len(FILES):
            text = "no file is the one that it names: it is that of another pack"
            report.add("foreign_manifest", "manifest.json", text)
        check.end()
    except UnusablePack as unusable:
        report.add(*unusable.finding)
    return report


class _Check:
    """One reading of a pack."""

    def __init__(self, report: EvidenceReport, manifest: dict[str, Any]) -> None:
        self._report, self._files = report, manifest["files"]
        self._workflow, remember_s = manifest.get("workflow_id"), manifest.get("remember_s")
        memory = remember_s if isinstance(remember_s, int | float) else None
        self._chains = {
            "attempts": ChainCheck(at="started_at", remember_s=memory),
            "steps": ChainCheck(at="at"),
        }
        self.anchored = AnchoredHeads(manifest)
        self._heads: set[tuple[str, ChainName]] = set()
        unknown = manifest.get("unknown_digests")
        self._known = {*map(str, unknown)} if isinstance(unknown, list) else set[str]()
        self._needed: dict[str, str] = {}  # digests, and who names them first
        self._takes: Mapping[str, Callable[[dict[str, Any], str, int], None]] = {
            "attempts": self._attempt,
            "steps": self._step,
            "outcomes": self._outcome,
            "definitions": partial(self._text, "definitions"),
            "schemas": partial(self._text, "schemas"),
            "heads": self._head,
        }

    def file(self, pack: Any, name: str) -> bool:
        """Read a file; False if it is not the one that was signed."""
        signed, file_name = self._files.get(name), f"{name}.jsonl"
        size = signed.get("bytes") if isinstance(signed, dict) else None
        if not isinstance(size, int) or size < 0:
            raise UnusablePack("not_a_pack", "manifest.json", f"it does not name {file_name}")
        digest, number = hashlib.sha256(), 0
        take = self._takes[name]
        try:
            for number, line in enumerate(lines_of(pack, file_name, size), start=1):
                digest.update(line)
                read = record_of(line)
                if read is None:
                    self._add("unreadable", name, number, NO_OBJECT)
                else:
                    take(*read, number)
        except UnusablePack as unusable:
            self._report.add(*unusable.finding)
            return False
        self._report.lines[name] = number
        if digest.hexdigest() != signed.get("sha256"):
            self._report.add("changed_file", file_name, "it is not the file that was signed")
            return False
        return True

    def _attempt(self, body: dict[str, Any], computed: str, line: int) -> None:
        self._in_scope("attempts", body, line)
        name = (str(body.get("account_id")),)
        self._record("attempts", name, body, computed, line)
        if schema := body.get("schema_digest"):
            self._needed.setdefault(str(schema), f"attempts.jsonl:{line}")

    def _step(self, body: dict[str, Any], computed: str, line: int) -> None:
        self._in_scope("steps", body, line)
        if "hash" not in body:
            return  # what people were asked and said; of a step, the next one would lack it
        name = (str(body.get("workflow_id")), str(body.get("request_id")))
        self._record("steps", name, body, computed, line)
        agent = body.get("agent")
        if isinstance(agent, dict):
            self._needed.setdefault(str(agent.get("digest")), f"steps.jsonl:{line}")

    def _record(
        self, file: str, name: ChainName, body: dict[str, Any], computed: str, line: int
    ) -> None:
        if body.get("hash") != computed:
            self._add("changed_record", file, line, f"its hash should be {computed}")
        self.anchored.met(file, name, self._chains[file].follow(name, body, line))

    def _outcome(self, body: dict[str, Any], _: str, line: int) -> None:
        self._in_scope("outcomes", body, line)

    def _in_scope(self, file: str, body: dict[str, Any], line: int) -> None:
        if self._workflow not in (None, body.get("workflow_id")):
            self._add("foreign_workflow", file, line, f"it is of {body.get('workflow_id')!r:.100}")

    def _text(self, file: str, body: dict[str, Any], _: str, line: int) -> None:
        text = str(body.get("text")).encode(errors="surrogatepass")
        digest = "sha256:" + hashlib.sha256(text).hexdigest()
        if body.get("digest") != digest:
            kind = f"{file.removesuffix('s')}_replaced"
            self._add(kind, file, line, f"its text has the digest {digest}")
        self._known.add(digest)

    def _head(self, body: dict[str, Any], _: str, line: int) -> None:
        of = body.get("of")
        found = (str(body.get("chain")), tuple(map(str, of)) if isinstance(of, list) else ())
        if found[0] not in self._chains or found in self._heads:
            self._add("replaced_head", "heads", line, "it is of no chain, or there twice")
            return
        self._heads.add(found)
        chain = self._chains[found[0]].chains.get(found[1])
        if chain is None:
            self._add("dropped_chain", "heads", line, f"no record of {found[1]} is there")
            return
        said = (body.get("begins"), body.get("records"), body.get("head"))
        if said == (chain.begins, chain.count, chain.head):
            return
        if (
            body.get("begins") == chain.begins
            and isinstance(said[1], int)
            and said[1] > chain.count
        ):
            text = f"{said[1]} records up to {said[2]}, not {chain.count} up to {chain.head}"
            self._add("dropped_tail", "heads", line, text)
        else:
            text = f"{chain.count} records from {chain.begins} to {chain.head}, not {said}"
            self._add("replaced_head", "heads", line, text[:600])

    def name_mismatches(self, pack: Any) -> None:
        """Say of each record that is not linked what was done."""
        for file, check in self._chains.items():
            if check.mismatches:
                lines = lines_of(pack, f"{file}.jsonl", self._files[file]["bytes"])
                try:
                    kinds = kinds_of(check.mismatches, lines)
                except UnusablePack:  # which was said of the first reading
                    kinds = {one.line: "dropped_record" for one in check.mismatches}
                for line, kind in kinds.items():
                    self._add(kind, file, line, _WORDS[kind])

    def end(self) -> None:
        """Report heads, definitions and anchored records that are missing."""
        for file, check in self._chains.items():
            for name in check.chains:
                if (file, name) not in self._heads:
                    text = f"the head of {name} is missing"
                    self._report.add("replaced_head", "heads.jsonl", text)
            self._beginnings(file, check)
        for digest in self._needed.keys() - self._known:
            text = f"nothing in the pack has the digest {digest}"
            self._report.add("definition_missing", self._needed[digest], text)
        for file, text in self.anchored.missing(self._chains):
            self._report.add("dropped_tail", f"{file}.jsonl", text)
        self._report.later_anchors = self.anchored.later

    def _beginnings(self, file: str, check: ChainCheck) -> None:
        """A replay goes on from the last record of the run that died; others begin with nothing."""
        if self.anchored.is_cut(file):
            return
        ends = {chain.head for chain in check.chains.values()} if file == "steps" else set()
        for name, chain in check.chains.items():
            if chain.begins is not None and chain.begins not in ends:
                text = f"{chain.begins}, which the chain of {name} begins after, is missing"
                self._report.add("dropped_record", f"{file}.jsonl", text)

    def _add(self, kind: str, file: str, line: int, text: str) -> None:
        self._report.add(kind, f"{file}.jsonl:{line}", text)

"""`python -m answerbus.evidence PACK.zip --key PUBLIC.pem`: checks an evidence pack.

Exit code 0: whole; 1: not, and each finding is named; 2: usage. Take this program and the public
key from where you trust them, never from the pack.
"""

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from answerbus.evidence.ed25519 import key_of
from answerbus.evidence.verifier import EvidenceReport, verify

KEY_FILE_BYTES_MAX = 16 * 1024


def main(arguments: Sequence[str] | None = None) -> int:
    """Print what was read and each finding."""
    parser = argparse.ArgumentParser(prog="verify", description=__doc__)
    add = parser.add_argument
    add("pack", type=Path, metavar="PACK.zip", help="what `answerbus evidence export` wrote")
    key_help = "the public key; repeatable"
    add("--key", type=Path, action="append", required=True, metavar="PUBLIC.pem", help=key_help)
    anchor_help = "what `answerbus audit anchor` wrote; repeatable"
    add("--anchor", type=Path, action="append", default=[], metavar="FILE", help=anchor_help)
    add("--json", action="store_true", help="print JSON, for programs")
    given = parser.parse_args(arguments)
    keys = []
    try:
        for path in given.key:
            key = key_of(path.read_bytes()[:KEY_FILE_BYTES_MAX])
            if key is None:
                parser.error(f"{path} is not a public key of Ed25519")
            keys.append(key)
        report = verify(given.pack, keys, given.anchor)
    except OSError as error:
        parser.error(str(error))
    sys.stdout.write(_as_json(report) if given.json else _as_text(report))
    return 1 if report.count else 0


def counts_text(lines: Mapping[str, int]) -> str:
    """The number of lines of each file of a pack, such as `1 head` and `2 heads`."""
    return ", ".join(
        f"{count:,} {name.removesuffix('s') if count == 1 else name}"
        for name, count in lines.items()
    )


def _as_text(report: EvidenceReport) -> str:
    counts = counts_text(report.lines)
    if report.later_anchors:
        counts += f"; anchors later than the pack: {report.later_anchors:,}"
    if not report.count:
        return f"whole: {counts}\n"
    places = "1 place" if report.count == 1 else f"{report.count:,} places"
    lines = [f"broken in {places}: {counts}"]
    lines += [f"{one.kind} at {one.place}: {one.text}" for one in report.findings]
    if report.count > len(report.findings):
        lines.append(f"and {report.count - len(report.findings):,} more")
    return "\n".join(ascii(line)[1:-1] for line in lines) + "\n"


def _as_json(report: EvidenceReport) -> str:
    findings = [one._asdict() for one in report.findings]
    data = {
        "whole": not report.count,
        "lines": report.lines,
        "later_anchors": report.later_anchors,
        "count": report.count,
        "findings": findings,
    }
    return json.dumps(data, indent=1) + "\n"


def run() -> None:
    """As a program."""
    sys.exit(main())


if __name__ == "__main__":
    run()

"""`python -m answerbus.evidence PACK.zip --key PUBLIC.pem`: checks an evidence pack.

Exit code 0: whole; 1: not, and each finding is named; 2: usage. Take this program and the public
key from where you trust them, never from the pack.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from answerbus.evidence.ed25519 import key_of
from answerbus.evidence.verifier import EvidenceReport, verify

KEY_FILE_BYTES_MAX = 16 * 1024


def main(arguments: Sequence[str] | None = None) -> int:
    """Print what was read and each finding."""
    parser = argparse.ArgumentParser(prog="verify", description=__doc__)
    parser.add_argument("pack", type=Path)
    parser.add_argument("--key", type=Path, action="append", required=True, metavar="PUBLIC.pem")
    parser.add_argument("--anchor", type=Path, action="append", default=[], metavar="FILE")
    parser.add_argument("--json", action="store_true")
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


def _as_text(report: EvidenceReport) -> str:
    counts = ", ".join(f"{count:,} {name}" for name, count in report.lines.items())
    if report.later_anchors:
        counts += f"; {report.later_anchors:,} anchors are later than the pack"
    if not report.count:
        return f"whole: {counts}\n"
    lines = [f"broken in {report.count:,} places: {counts}"]
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

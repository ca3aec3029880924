"""`python -m tests.benchmarks.evidence`: time and memory of checking an evidence pack of a size."""

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from answerbus.evidence.pack_file import PACK_DOMAIN
from services.operators.audit.evidence import PackContents, PackScope, line_of, manifest
from services.text.digest import record_digest
from tests.contracts.evidence.packs import AT, KEY, public

ROOT = Path(__file__).parents[2]
EXAMPLE = json.loads((ROOT / "contracts/examples/attempt/result.json").read_bytes())
ATTEMPTS_EACH = 4  # of each account


def main() -> None:
    """Write a pack of its own, and check it with one process; prints one JSON line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--attempts", type=int, default=1_000_000)
    count = parser.parse_args().attempts
    with tempfile.TemporaryDirectory() as folder:
        pack, key = Path(folder) / "pack.zip", Path(folder) / "key.hex"
        key.write_text(public().hex())
        write(pack, count)
        figures = verify(pack, key) | {"pack_mib": pack.stat().st_size // 2**20}
    sys.stdout.write(json.dumps(figures) + "\n")


def write(path: Path, count: int) -> None:
    contents = PackContents()
    files: dict[str, dict[str, str | int]] = {}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        parts: dict[str, Iterable[bytes]] = {
            "attempts": attempts(count, contents),
            **dict.fromkeys(("steps", "outcomes", "definitions", "schemas"), ()),
            "heads": contents.heads(),
        }
        for name, lines in parts.items():
            digest, size = hashlib.sha256(), 0
            with archive.open(f"{name}.jsonl", "w", force_zip64=True) as file:
                for line in lines:
                    file.write(line)
                    digest.update(line)
                    size += len(line)
            files[name] = {"sha256": digest.hexdigest(), "bytes": size}
        about: Any = {
            "at": AT,
            "by": "ops",
            "prefix": "answerbus",
            "remember_s": 604_800.0,
            "reaches": {},
        }
        text = manifest(PackScope(), files, contents.schemas, key=public(), **about)
        archive.writestr("manifest.json", text)
        archive.writestr("manifest.sig", KEY.sign(PACK_DOMAIN + text).hex())


def attempts(count: int, contents: PackContents) -> Iterator[bytes]:
    for number in range(count // ATTEMPTS_EACH):
        name, head = f"order-{number}", None
        for attempt in range(1, ATTEMPTS_EACH + 1):
            ids = {"request_id": f"r-{number}", "workflow_id": name, "account_id": name}
            body = {**EXAMPLE, **ids, "attempt": attempt, "previous": head}
            head = body["hash"] = record_digest(body)
            contents.take("attempts", body)
            yield line_of(body)


def verify(pack: Path, key: Path) -> dict[str, Any]:
    """What the verifier says, how long it took, and the most memory that it had."""
    command = [sys.executable, "-I", "-S", "-c", RUN, str(ROOT / "contracts"), str(pack)]
    began = time.monotonic()
    process = subprocess.Popen([*command, "--key", str(key), "--json"], stdout=subprocess.PIPE)
    assert process.stdout
    with process.stdout as out:
        found = json.load(out)
    _, _, usage = os.wait4(process.pid, 0)
    return {
        "whole": found["whole"],
        "attempts": found["lines"]["attempts"],
        "s": round(time.monotonic() - began, 1),
        "cpu_s": round(usage.ru_utime + usage.ru_stime, 1),
        "peak_mib": round(usage.ru_maxrss / 1024),
    }


RUN = (
    "import sys; sys.path.insert(0, sys.argv.pop(1)); "
    "from answerbus.evidence.__main__ import run; run()"
)

if __name__ == "__main__":
    main()

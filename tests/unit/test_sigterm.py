"""SIGTERM ends a command as Ctrl-C does: what it has begun to write is taken away."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

pytestmark = pytest.mark.wide  # starts processes
END_S = 30.0
STUCK = """
import asyncio
from services import cli
from services.commands import evidence as command
from services.operators.adapters import evidence

async def nothing(*_):
    return {}

async def stuck(*_):
    print("begun", flush=True)
    await asyncio.Event().wait()

command._texts, evidence._written = nothing, stuck
cli.main()
"""
# As a shell without a terminal starts what ends with `&`.
WITHOUT_CTRL_C = "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)\n"


@pytest.mark.parametrize("before", ["", WITHOUT_CTRL_C])
def test_no_part_of_a_pack_stays_after_sigterm(tmp_path: Path, before: str) -> None:
    pack, key = tmp_path / "pack.zip", tmp_path / "key.pem"
    form = (Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    key.write_bytes(Ed25519PrivateKey.generate().private_bytes(*form))
    export = ["evidence", "export", "--workflow", "w", "--key", str(key), "--out", str(pack)]

    def parts() -> list[Path]:
        return [path for path in tmp_path.iterdir() if path != key]

    command, pipe = [sys.executable, "-c", before + STUCK, *export], subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe) as started:
        try:
            assert started.stdout is not None
            begun = started.stdout.readline(), len(parts())
            started.send_signal(signal.SIGTERM)
            rest = started.communicate(timeout=END_S)
        finally:
            started.kill()

    assert begun == (b"begun\n", 1)
    assert (started.returncode, rest) == (128 + signal.SIGTERM, (b"", b""))
    assert parts() == []

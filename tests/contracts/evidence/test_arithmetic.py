"""The verifier's own signatures and digests, held against the libraries that workers use."""

import json
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import rfc8785
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from answerbus.evidence.__main__ import counts_text
from answerbus.evidence.ed25519 import _L, is_signed, key_of
from answerbus.evidence.record_digest import canonical, record_of
from services.text.digest import record_digest
from tests.contracts.evidence.packs import KEY, public, signed, whole, written

ROOT = Path(__file__).parents[3]
# RFC 8032, 7.1: key, message, signature.
VECTORS = [
    (
        "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a",
        "",
        (
            "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701c"
            "f9b46bd25bf5f0595bbe24655141438e7a100b"
        ),
    ),
    (
        "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c",
        "72",
        (
            "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e458f3613d0"
            "f11d8c387b2eaeb4302aeeb00d291612bb0c00"
        ),
    ),
    (
        "fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025",
        "af82",
        (
            "6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac18ff9b538d16f290ae67f760984"
            "dc6594a7c15e9716ed28dc027beceea1ec40a"
        ),
    ),
]


@pytest.mark.parametrize(("key", "message", "signature"), VECTORS, ids=range(len(VECTORS)))
def test_the_vectors_of_the_standard(key: str, message: str, signature: str) -> None:
    parts = bytes.fromhex(key), bytes.fromhex(message), bytes.fromhex(signature)

    assert is_signed(*parts)
    assert not is_signed(parts[0], parts[1] + b"x", parts[2])


def test_signatures_of_the_library_are_right_and_changed_ones_are_not() -> None:
    chance = random.Random(1)
    for _ in range(20):
        key = Ed25519PrivateKey.from_private_bytes(chance.randbytes(32))
        message = chance.randbytes(chance.randrange(100))
        signature = key.sign(message)
        flipped = bytearray(signature)
        flipped[chance.randrange(64)] ^= 1 << chance.randrange(8)

        assert is_signed(public(key), message, signature)
        assert not is_signed(public(key), message, bytes(flipped))
        assert not is_signed(public(KEY), message, signature)


def test_a_signature_has_one_form() -> None:
    """The order of the group added to it: some libraries take that for the same signature."""
    signature = KEY.sign(b"m")
    scalar = int.from_bytes(signature[32:], "little") + _L

    assert not is_signed(public(), b"m", signature[:32] + scalar.to_bytes(32, "little"))
    assert not is_signed(b"\xff" * 32, b"m", signature)
    assert not is_signed(public()[:31], b"m", signature)
    assert not is_signed(public(), b"m", signature[:63])


def test_keys_are_read_as_openssl_writes_them() -> None:
    pem = KEY.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)

    assert key_of(pem) == public()
    assert key_of(public().hex().encode()) == public()
    for wrong in (b"", b"\xff", b"zz", pem[:40], pem.replace(b"M", b"?"), b"00" * 31):
        assert key_of(wrong) is None


VALUES: list[Any] = [
    *(0.0, -0.0, 1.0, -1.5, 0.1, 1e-6, 1e-7, 1.5e-7, 9.99e20, 1e21, 1.5e21, 1e300, 5e-324),
    *(2**53 - 1, 2**53 - 1.0, 1e16, 123456789012345680000.0, 333333333.3333332, True, None),
    *("ü", "\u2028", "\x00\x1f\x7f", '"\\/', "𝄞", {"ü": 1, "𝄞": 2, "ﬀ": 3, "a": []}),
]


def test_texts_are_those_of_the_standard() -> None:
    chance = random.Random(2)
    numbers = [chance.uniform(-1, 1) * 10.0 ** chance.randrange(-30, 30) for _ in range(2_000)]
    for value in (*VALUES, *numbers):
        assert canonical(value) == rfc8785.dumps(value).decode()


def test_digests_are_those_of_workers_also_of_large_numbers() -> None:
    for value in (*VALUES, 2**53, 2**70, -(2**70)):
        for name in ("v", "ü", "𝄞"):
            body = {"hash": "x", name: value, "b": [{"é": value}], "previous": None}
            for ascii_only in (True, False):
                line = json.dumps(body, ensure_ascii=ascii_only).encode()
                read = record_of(line)
                assert read is not None
                assert read[1] == record_digest(body)


def test_it_runs_on_the_standard_library_alone(tmp_path: Path) -> None:
    pack = written(tmp_path / "pack.zip", signed(whole()))
    key = tmp_path / "key.hex"
    key.write_text(public().hex())
    code = (
        "import sys; sys.path.insert(0, sys.argv.pop(1)); from answerbus.evidence.__main__ "
        "import main; code = main(); "
        "own = {n.partition('.')[0] for n in sys.modules} - set(sys.stdlib_module_names); "
        "assert own <= {'answerbus', '__main__'}, own; sys.exit(code)"
    )
    ran = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code, str(ROOT / "contracts"), str(pack), "--key", key],
        capture_output=True,
        text=True,
        check=False,
    )

    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout.startswith("whole: 6 attempts, 4 steps")


def test_counts_have_the_right_number() -> None:
    assert counts_text({"steps": 0, "heads": 1, "attempts": 2_000}) == (
        "0 steps, 1 head, 2,000 attempts"
    )

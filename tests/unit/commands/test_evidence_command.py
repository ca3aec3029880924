"""`answerbus evidence` without Kafka: keys, signers, and the program for auditors."""

import os
import subprocess
import sys
from importlib.metadata import EntryPoint
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from typer.testing import CliRunner

from answerbus.evidence.ed25519 import is_signed
from services import cli
from services.commands import anchoring
from services.operators.adapters import signing
from services.operators.adapters.evidence import Exported, PackTooLarge
from services.operators.adapters.signing import signer_of
from services.operators.adapters.whole_file import whole_file
from services.settings.settings import SetUpError
from tests.contracts.evidence.packs import KEY, OTHER_KEY, public, signed, whole, written

READ_LIMIT_S = 30.0
HIDDEN = "Records of runs were not looked at."


async def no_texts(*_: Any) -> dict[str, str]:
    return {}


def key_in(folder: Path) -> Path:
    file = folder / "key.pem"
    file.write_bytes(KEY.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    return file


def ran(*arguments: str) -> tuple[int, str]:
    done = CliRunner().invoke(cli.application(), ["evidence", *arguments])
    return done.exit_code, done.output


@pytest.fixture
def key(tmp_path: Path) -> str:
    path = tmp_path / "key.hex"
    path.write_text(public().hex())
    return str(path)


@pytest.mark.wide
def test_a_pack_is_checked_by_the_command_and_by_the_program_for_auditors(
    tmp_path: Path, key: str
) -> None:
    pack = str(written(tmp_path / "pack.zip", signed(whole())))
    other = str(written(tmp_path / "other.zip", signed(whole(), OTHER_KEY)))
    program = tmp_path / "verify.pyz"
    assert ran("verifier", "--out", str(program))[0] == 0

    def by_program(path: str) -> tuple[int, str]:
        command = [sys.executable, "-I", "-S", str(program), path, "--key", key]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout

    assert ran("verify", pack, "--key", key)[0] == 0
    assert by_program(pack)[0] == 0
    assert by_program(pack)[1].startswith("whole: 6 attempts")
    assert ran("verify", other, "--key", key)[0] == 1
    assert by_program(other)[0] == 1
    assert "unknown_key at signature" in by_program(other)[1]


def test_the_program_for_auditors_takes_the_place_of_no_file(tmp_path: Path) -> None:
    file = tmp_path / "answerbus.toml"
    file.write_text("[kafka]")

    code, output = ran("verifier", "--out", str(file))

    assert (code, file.read_text()) == (2, "[kafka]")
    assert "is there already" in " ".join(output.split())


def test_the_program_for_auditors_goes_to_a_pipe(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with subprocess.Popen(["cat", str(pipe)], stdout=subprocess.PIPE) as reader:
        code, output = ran("verifier", "--out", str(pipe))
        if code:
            reader.kill()
        program, _ = reader.communicate(timeout=READ_LIMIT_S)

    assert code == 0, output
    assert program.startswith(b"PK")


def test_a_pack_that_would_be_too_large_is_named_and_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def too_large(*_: Any) -> None:
        raise PackTooLarge

    monkeypatch.setattr("services.commands.evidence._texts", no_texts)
    monkeypatch.setattr("services.operators.adapters.evidence._written", too_large)
    private, out = key_in(tmp_path), tmp_path / "pack.zip"

    code, text = ran("export", "--since", "30d", "--key", str(private), "--out", str(out))

    assert code == 2
    assert "export a shorter time" in " ".join(text.replace("│", " ").split())
    assert not out.exists()


def test_of_an_unknown_workflow_no_pack_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    private, out = key_in(tmp_path), tmp_path / "pack.zip"

    async def nothing(*_: Any) -> Exported:
        out.write_bytes(b"an empty pack")
        return Exported({"attempts": 0, "steps": 0})

    monkeypatch.setattr("services.commands.evidence._export", nothing)

    code, text = ran("export", "--workflow", "nope", "--key", str(private), "--out", str(out))

    assert (code, text) == (1, "Nothing of the workflow nope is kept: there is no pack.\n")
    assert not out.exists()


def test_a_pack_has_its_name_only_once_it_is_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An export that is killed leaves no part of a pack under this name."""
    private, out = key_in(tmp_path), tmp_path / "pack.zip"
    meanwhile = []

    async def half(*_: Any) -> Exported:
        meanwhile.append(out.exists())
        return Exported({"attempts": 1})

    async def hidden_runs(*_: Any) -> str:
        return HIDDEN

    monkeypatch.setattr("services.commands.evidence._texts", no_texts)
    monkeypatch.setattr("services.operators.adapters.evidence._written", half)
    monkeypatch.setattr("services.commands.evidence.hidden_runs", hidden_runs)
    code, text = ran("export", "--since", "30d", "--key", str(private), "--out", str(out))

    assert (code, meanwhile) == (0, [False]), text
    assert HIDDEN in text
    assert sorted(tmp_path.iterdir()) == [private, out]


def test_an_anchor_without_the_steps_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    private = key_in(tmp_path)

    async def anchored(*_: Any) -> tuple[Path, bytes]:
        return tmp_path / "anchor", b""

    async def hidden_runs(*_: Any) -> str:
        return HIDDEN

    monkeypatch.setattr(anchoring, "write_anchor", anchored)
    monkeypatch.setattr(anchoring, "hidden_runs", hidden_runs)
    arguments = ["audit", "anchor", "--key", str(private), "--out", str(tmp_path)]
    done = CliRunner().invoke(cli.application(), arguments)

    assert (done.exit_code, done.stderr) == (0, f"{HIDDEN}\n")


def test_a_pack_that_another_export_has_written_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    private, out = key_in(tmp_path), tmp_path / "pack.zip"

    async def meanwhile(*_: Any) -> Exported:
        out.write_bytes(b"of the other")
        return Exported({"attempts": 1})

    monkeypatch.setattr("services.commands.evidence._texts", no_texts)
    monkeypatch.setattr("services.operators.adapters.evidence._written", meanwhile)

    code, text = ran("export", "--since", "30d", "--key", str(private), "--out", str(out))

    assert code == 2
    assert "is there already" in " ".join(text.replace("│", " ").split())
    assert out.read_bytes() == b"of the other"
    assert sorted(tmp_path.iterdir()) == [private, out]


def test_a_pack_goes_neither_in_the_place_of_a_link_nor_into_a_missing_folder(
    tmp_path: Path,
) -> None:
    link, inside = tmp_path / "link.zip", tmp_path / "missing" / "pack.zip"
    link.symlink_to(tmp_path / "nowhere")

    for out, words in ((link, "is there already"), (inside, "is not a folder")):
        code, text = ran("export", "--since", "30d", "--key", "key.pem", "--out", str(out))
        assert code == 2
        assert words in " ".join(text.replace("│", " ").split())
    with pytest.raises(FileExistsError), whole_file(link, is_new=True):
        pass
    assert [*tmp_path.iterdir()] == [link]
    assert link.is_symlink()


def test_what_is_no_key_is_named(tmp_path: Path) -> None:
    of_curve = tmp_path / "ec.pem"
    form = (Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    of_curve.write_bytes(generate_private_key(SECP256R1()).private_bytes(*form))
    text = tmp_path / "text.pem"
    text.write_text("no key")

    for path in (of_curve, text):
        with pytest.raises(SetUpError, match="is not an Ed25519 private key"):
            signer_of(str(path))
    with pytest.raises(SetUpError, match="cannot be read"):
        signer_of(str(tmp_path / "missing.pem"))


def plugin(monkeypatch: pytest.MonkeyPatch, **members: Any) -> None:
    entry = EntryPoint("kms", "tests:signer", signing.GROUP)
    monkeypatch.setattr(EntryPoint, "load", lambda _: SimpleNamespace(**members))
    monkeypatch.setattr(signing, "entry_points", lambda **_: [entry])


def test_a_plug_in_signs_and_a_wrong_one_is_found_before_anything_is_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plugin(monkeypatch, public_key=public(), sign=KEY.sign)
    assert is_signed(public(), b"m", signer_of("plugin:kms").sign(b"m"))

    plugin(monkeypatch, public_key=public(), sign=OTHER_KEY.sign)
    with pytest.raises(SetUpError, match="its own public key refuses"):
        signer_of("plugin:kms").sign(b"m")

    plugin(monkeypatch)
    with pytest.raises(SetUpError, match="'kms' cannot be used"):
        signer_of("plugin:kms")
    monkeypatch.setattr(signing, "entry_points", lambda **_: [])
    with pytest.raises(SetUpError, match="0 distributions"):
        signer_of("plugin:kms")

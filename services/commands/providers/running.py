"""Runs all checks of a provider within a time, whatever its code does."""

import asyncio
import contextlib
import io
import logging
import traceback
from collections.abc import Iterator
from pathlib import Path
from threading import Thread

from answerbus.wire import clip
from services.commands.providers.conformance import CHECKS, SECRET, CheckResult, Subject
from services.commands.providers.server import PlayedServer
from services.worker.adapters.providers.kinds.known import Kind

CHECKS_S_MAX = 60.0  # of all checks; those of ours take about 4 s
MESSAGE_BYTES_MAX = 200  # of an exception


def checked_in_time(
    name: str, kind: Kind, limit_s: float = CHECKS_S_MAX, server: PlayedServer | None = None
) -> list[CheckResult]:
    """A result for each check. The checks are left where they hang, with the process.

    `server` then has the first request, which is the one for an answer.
    """
    results: list[CheckResult] = []
    played = (name, kind, server or PlayedServer())
    thread = Thread(target=_check_all, args=(*played, results), daemon=True)
    thread.start()
    thread.join(limit_s)
    found, left = [*results], [*CHECKS, _NO_SECRETS][len(results) :]
    if left:
        hanging, *others = left
        found.append(CheckResult(hanging, f"it did not end in {limit_s:g} s"))
        found += [CheckResult(one, "it was not tried, since another check hangs") for one in others]
    return found


_NO_SECRETS = "secrets"


def _check_all(name: str, kind: Kind, played: PlayedServer, results: list[CheckResult]) -> None:
    with _written() as written:
        asyncio.run(_checked(name, kind, played, results))
    shown = SECRET in written.getvalue()
    results.append(
        CheckResult(_NO_SECRETS, "its key is in what it logs or prints" if shown else None)
    )


async def _checked(name: str, kind: Kind, played: PlayedServer, results: list[CheckResult]) -> None:
    async with played as server:
        for check, tried in CHECKS.items():
            try:
                fault = await tried(Subject(name, kind, server))
            except (Exception, SystemExit) as error:  # the plug-in's own code runs here
                fault = _raised(error)
            results.append(CheckResult(check, fault))


def _raised(error: Exception | SystemExit) -> str:
    """By its kind and message, and the line that raised it."""
    line = traceback.extract_tb(error.__traceback__)[-1]
    message = clip(f": {error}", MESSAGE_BYTES_MAX) if str(error) else ""
    return f"{Path(line.filename).name}:{line.lineno} raises {type(error).__name__}{message}"


@contextlib.contextmanager
def _written() -> Iterator[io.StringIO]:
    """All that is logged or printed meanwhile, on every level."""
    text = io.StringIO()
    handler, root = logging.StreamHandler(text), logging.getLogger()
    level = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    try:
        with contextlib.redirect_stdout(text), contextlib.redirect_stderr(text):
            yield text
    finally:
        root.removeHandler(handler)
        root.setLevel(level)

"""A provider without a model: it plays a script, for demos, load and tests of faults."""

import asyncio
import json
import logging
import os
import re
from dataclasses import replace
from pathlib import Path
from typing import Literal, assert_never

from answerbus.budget import Usage
from answerbus.wire import format_timestamp
from services.worker.adapters.providers import scripted_rules as rules
from services.worker.adapters.providers.recorded_script import load
from services.worker.core.attempt import reply as core
from services.worker.core.attempt.prompt import Prompt
from services.worker.core.attempt.reply import CallFacts, Reply
from services.worker.ports.clock import Clock
from services.worker.ports.provider import NotReady, Readiness, Ready
from services.worker.tasks.fair_timeout import FairTimeout

logger = logging.getLogger(__name__)


class ScriptedProvider:
    """Plays the file `script` (scripted_rules, or a cassette) and notes each call in `journal`.

    A call that no rule fits is rejected as `no_rule`, one that was not recorded as
    `changed_prompt`, with the nearest difference in the log. Without a valid script, or with a
    journal that cannot be written, every call is rejected for the whole profile.
    """

    name = "scripted"

    def __init__(
        self, *, script: Path, clock: Clock, journal: Path | None = None, model: str = "scripted"
    ) -> None:
        self.model = model
        self._script = load(script)
        self._journal = None if journal is None else Journal(journal, clock)

    async def ask(self, prompt: Prompt, *, timeout_s: float) -> Reply:
        """Plays one reply; a latency beyond `timeout_s` ends in TimedOut."""
        if prompt.begins_by is not None and asyncio.get_running_loop().time() >= prompt.begins_by:
            return core.Unavailable(None, ran=False)
        if self._journal is None:
            return await self._play(prompt, timeout_s)
        if not self._journal.note("start", prompt, None):
            return core.Rejected("profile", None, "no_journal")
        reply: Reply | None = None
        try:
            reply = await self._play(prompt, timeout_s)
            return reply
        finally:
            self._journal.note("end", prompt, reply)

    async def preflight(self) -> Readiness:
        """Whether the script is one, and the journal can be written."""
        if isinstance(self._script, str):
            return NotReady(self._script)
        try:
            if self._journal is not None:
                self._journal.open()
        except OSError as error:
            return NotReady(f"the journal {error.filename} cannot be opened: {error.strerror}")
        return Ready()

    async def close(self) -> None:
        if self._journal is not None:
            self._journal.close()

    async def _play(self, prompt: Prompt, timeout_s: float) -> Reply:
        if isinstance(self._script, str):
            return core.Rejected("profile", None, "no_script")
        rule = self._script.rule_for(prompt)
        if isinstance(rule, rules.NoRule):
            if rule.reason:
                logger.error("the cassette has no answer to this prompt: %s", rule.reason)
            return core.Rejected("request", None, rule.code)
        try:
            async with FairTimeout(timeout_s):
                await asyncio.sleep(rule.latency_of(prompt))
                if isinstance(rule.reply, rules.Hang):
                    await asyncio.Event().wait()
        except TimeoutError:
            return core.TimedOut(timeout_s)
        return self._reply(rule.reply, prompt, timeout_s)

    def _reply(self, played: rules.Played, prompt: Prompt, timeout_s: float) -> Reply:
        facts = CallFacts(self.model, f"{prompt.request_id}.{prompt.attempt}", played.kind)
        match played:
            case rules.Answered():
                usage = Usage(
                    input_tokens=played.usage.input_tokens, output_tokens=played.usage.output_tokens
                )
                return core.Answered(played.text, replace(facts, stop_reason="stop", usage=usage))
            case rules.Refused():
                return core.Refused(played.reason, facts, played.category)
            case rules.Truncated():
                return core.Truncated(prompt.max_output_tokens, facts)
            case rules.Throttled():
                return core.Throttled(played.retry_after_s)
            case rules.Unavailable():
                return core.Unavailable(played.status, ran=played.ran)
            case rules.TimedOut() | rules.Hang():
                return core.TimedOut(timeout_s)
            case rules.Rejected():
                return core.Rejected(played.scope, played.status, played.code)
            case _:
                assert_never(played)


class Journal:
    """One JSON line per start and end of a call, written at once: it outlives the process.

    Several processes may share the file. An end without a reply is a call that was cancelled.
    """

    def __init__(self, path: Path, clock: Clock) -> None:
        self._path = path
        self._clock = clock
        self._file: int | None = None

    def note(self, event: Literal["start", "end"], prompt: Prompt, reply: Reply | None) -> bool:
        """Appends a line; False, and a log entry, if that failed."""
        line = {
            "event": event,
            "request_id": prompt.request_id,
            "attempt": prompt.attempt,
            "at": format_timestamp(self._clock.now()),
            "pid": os.getpid(),
        }
        if event == "end":
            line["reply"] = None if reply is None else _kind(reply)
        try:
            # One write to a file opened for appending is never torn apart by another's.
            os.write(self.open(), json.dumps(line).encode() + b"\n")
        except OSError as error:
            logger.error("the journal %s cannot be written: %s", self._path, error.strerror)  # noqa: TRY400
            return False
        return True

    def open(self) -> int:
        """The file's descriptor; OSError if there can be none."""
        if self._file is None:
            self._file = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        return self._file

    def close(self) -> None:
        """A later note opens the file again."""
        if self._file is not None:
            os.close(self._file)
            self._file = None


def _kind(reply: Reply) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", type(reply).__name__).lower()

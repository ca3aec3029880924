"""Prompts, answers, arguments and results as attributes of spans, as far as the settings allow."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import assert_never

from pydantic import JsonValue

from answerbus.call_outcome import CallOk
from answerbus.dead_letter import DeadLetter
from answerbus.masking import Mask
from answerbus.outcome import Refusal, Result, UnvalidatedResult
from answerbus.redaction import redacted
from answerbus.step import ToolEnded
from answerbus.wire import clip
from services.settings.settings import SpanContentLevel
from services.telemetry.span import Attributes
from services.worker.core.attempt.reply import Answered, facts_of
from services.worker.core.attempt.turn import Turn
from services.worker.core.outcome.call import Call
from services.worker.core.request.lane_request import LaneRequest
from services.worker.core.run.children import Ended

CONTENT_BYTES_MAX = 8 * 1024
"""Of the texts in one attribute.

The costliest of them is masked in 20 ms, and 2,048 spans wait for a collector.
"""
_MARGIN_BYTES = 512  # read beyond what is shown: what begins before the cut is seen whole
_TURN_BYTES_MIN = 64  # with less room than that, a turn is left out
_RULES = ("digits", "emails")
_CUT = "…".encode()
_ANSWERED = "stop"  # where the provider does not say why it ended


@dataclass(frozen=True, slots=True)
class SpanContent:
    """Redacted: without e-mail addresses, long numbers, and the secrets that `mask` knows."""

    level: SpanContentLevel
    mask: Mask

    def of_call(self, call: Call) -> Attributes:
        """The newest part of the prompt, and the model's reply."""
        if self.level == "none":
            return {}
        system = _part(self._shown(call.prompt.system))
        shown = {
            "gen_ai.system_instructions": _dumped([system]),
            "gen_ai.input.messages": _dumped([*self._messages(call.prompt.turns)][::-1]),
        }
        if not isinstance(call.reply, Answered):
            return shown
        ended = facts_of(call.reply).stop_reason or _ANSWERED
        return {**shown, "gen_ai.output.messages": self._answer(call.reply.content, ended)}

    def of_run(self, lane_request: LaneRequest, ended: Ended) -> Attributes:
        """The input of an agent, and its answer."""
        if self.level == "none" or lane_request.request.agent is None:
            return {}
        asked = self._shown(lane_request.request.context.instructions)
        found = {"gen_ai.input.messages": _dumped([_message("user", asked)])}
        match ended:
            case Result():
                answer = ended.answer
            case UnvalidatedResult():
                answer = ended.unvalidated_answer
            case Refusal() | DeadLetter():
                return found
            case _:
                assert_never(ended)
        text = answer if isinstance(answer, str) else _dumped(answer)
        return {**found, "gen_ai.output.messages": self._answer(text, _ANSWERED)}

    def of_tool_call(self, lane_request: LaneRequest, end: ToolEnded) -> Attributes:
        """The arguments that a tool was called with, and its result; those of a long one are cut.

        What was redacted or cut may be JSON no more.
        """
        run = lane_request.run
        if self.level == "none" or run is None:
            return {}
        found = {}
        if call := run.call_of_last_step(end.call_id):
            found["gen_ai.tool.call.arguments"] = self._shown(_dumped(call.args))
        if isinstance(end.outcome, CallOk):
            found["gen_ai.tool.call.result"] = self._shown(_dumped(end.outcome.value))
        return found

    def _messages(self, turns: Iterable[Turn]) -> Iterator[JsonValue]:
        """The newest first."""
        left = CONTENT_BYTES_MAX
        for turn in reversed([*turns]):
            if left < _TURN_BYTES_MIN:
                return
            yield _message(turn.role, self._shown(turn.text, left))
            left -= turn.size

    def _answer(self, text: str, ended: str) -> str:
        return _dumped([{**_message("assistant", self._shown(text)), "finish_reason": ended}])

    def _shown(self, text: str, limit: int = CONTENT_BYTES_MAX) -> str:
        """Secrets are masked first: the mask does not find one that a rule has cut in two."""
        if self.level != "redacted":
            return clip(text, limit)
        read_max = limit + _MARGIN_BYTES
        hidden = str(redacted(self.mask(clip(text, read_max)), _RULES))
        if len(text.encode(errors="replace")) > read_max:  # its last bytes may be half an address
            limit = min(limit, max(len(hidden.encode()) - _MARGIN_BYTES, len(_CUT)))
        return clip(hidden, limit)


def _part(text: str) -> dict[str, JsonValue]:
    return {"type": "text", "content": text}


def _message(role: str, text: str) -> dict[str, JsonValue]:
    return {"role": role, "parts": [_part(text)]}


def _dumped(value: JsonValue) -> str:
    return json.dumps(value, ensure_ascii=False)

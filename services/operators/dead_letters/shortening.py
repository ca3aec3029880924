"""Steps that are too large for a request, with the results of old tool calls cut; pure."""

import json

from answerbus.call_outcome import CallOk, ResultTooLarge
from answerbus.limits import TOOL_EXCERPT_BYTES_MAX
from answerbus.resumed_run import ResumedCall, ResumedRun, ResumedStep
from answerbus.wire import clip
from services.text.digest import text_digest


def shortened(resumed: ResumedRun, bytes_max: int) -> ResumedRun:
    """The oldest results by their size and beginning, until the steps fit or all are cut.

    The newest are the ones that the model has worked least with.
    """
    excess = len(resumed.model_dump_json().encode()) - bytes_max
    steps = list[ResumedStep]()
    for step in resumed.steps:
        calls = list[ResumedCall]()
        for call in step.calls:
            shorter = _cut(call) if excess > 0 else call
            excess -= _size(call) - _size(shorter)
            calls.append(shorter)
        steps.append(step.model_copy(update={"calls": tuple(calls)}))
    return resumed.model_copy(update={"steps": tuple(steps)})


def _cut(call: ResumedCall) -> ResumedCall:
    if not isinstance(call.outcome, CallOk):
        return call
    text = json.dumps(call.outcome.value, ensure_ascii=False)
    size = len(text.encode(errors="replace"))
    if size <= TOOL_EXCERPT_BYTES_MAX:
        return call
    excerpt = clip(text, TOOL_EXCERPT_BYTES_MAX)
    too_large = ResultTooLarge(bytes=size, excerpt=excerpt, digest=text_digest(text))
    return call.model_copy(update={"outcome": too_large})


def _size(call: ResumedCall) -> int:
    return len(call.outcome.model_dump_json().encode())

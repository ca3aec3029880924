"""What a run has said and heard, as messages; the oldest results are shortened if it gets long."""

import json
from collections.abc import Iterable, Iterator

from answerbus.call_outcome import CallOk
from answerbus.private.runs import RunStepRecord
from answerbus.request import Message
from services.digest import bytes_digest
from services.worker.core.json_schema.keywords import JsonObject
from services.worker.core.run.delegation import call_names
from services.worker.core.run.repeats import remark_after
from services.worker.core.run.run import Run, ToolCall

# Small models make a call again that was answered, unless they are told that they may end.
RESULTS_ARE_IN = (
    "These are the results. Answer with a {end} if they suffice; call a tool again only for what "
    "they do not tell."
)
END_DEFAULT = "text_response"
KEPT_SHARE = 0.5  # of the limit, once it is reached: so that it is not reached by each step anew


def transcript(run: Run, end: str = END_DEFAULT) -> list[Message]:
    """Each step as the model's own words, then what its calls came to, as data.

    `end` is the kind of action that ends the run. It is a function of the run: the same steps are
    told in the same words, and what was shortened once stays so.
    """
    limit = run.definition.transcript_bytes_max
    told: list[Message] = []
    whole: dict[int, str] = {}  # by place, oldest first: how results begin that may be shortened
    total = 0
    for count, (step, calls) in enumerate(call_names(run), start=1):
        for message, head in _told(run, step, calls, count, end):
            if head is not None:
                whole[len(told)] = head
            told.append(message)
            total += _size(message)
        if total > limit:
            total -= _shorten(told, whole, total - int(limit * KEPT_SHARE))
    return told


def transcript_bytes(messages: Iterable[Message]) -> int:
    """How much of the next prompt they are."""
    return sum(map(_size, messages))


def _told(
    run: Run, step: RunStepRecord, calls: Iterable[tuple[str, ToolCall]], count: int, end: str
) -> Iterator[tuple[Message, str | None]]:
    """Messages; with those that may be shortened, how they begin."""
    yield Message(role="assistant", content=_said(run, step), trust="trusted"), None
    for name, call in calls:
        if call.outcome is not None:
            head = _head(run, name, call)
            text = json.dumps(call.outcome.model_dump(mode="json"), ensure_ascii=False)
            yield _result(head, text), head if isinstance(call.outcome, CallOk) else None
    remark = remark_after(run.steps[:count]) or RESULTS_ARE_IN.format(end=end)
    yield Message(role="user", content=remark, trust="trusted"), None


def _head(run: Run, name: str, call: ToolCall) -> str:
    """How the end of a call begins; only a run that may delegate has a use for the call's name."""
    return f"{name} {call.asked.tool}" if run.definition.delegate else call.asked.tool


def _result(head: str, text: str) -> Message:
    """The end of a call as the model reads it."""
    return Message(role="user", content=f"{head}: {text}")


def _said(run: Run, step: RunStepRecord) -> str:
    """The step as the model itself wrote it, without thoughts unless the agent remembers them."""
    thoughts = step.thoughts if run.definition.remember_thoughts else ()
    actions: list[JsonObject] = []
    actions += [{"kind": "thought", "content": text} for text in thoughts]
    actions += [{"kind": "text_response", "content": text} for text in step.said]
    for call in step.calls:
        actions.append({"kind": "tool_call", "name": call.tool, "args": call.args})
    return json.dumps({"actions": actions}, ensure_ascii=False)


def _shorten(told: list[Message], whole: dict[int, str], wanted: int) -> int:
    """Tell the oldest results by size and digest alone until so much is freed; gives how much."""
    freed = 0
    for place in list(whole):
        if freed >= wanted:
            break
        head = whole.pop(place)
        raw = told[place].content.removeprefix(f"{head}: ").encode()
        short = {"kind": "elided", "bytes": len(raw), "digest": bytes_digest(raw)}
        message = _result(head, json.dumps(short))
        if (gain := _size(told[place]) - _size(message)) > 0:
            told[place] = message
            freed += gain
    return freed


def _size(message: Message) -> int:
    return len(message.content.encode())

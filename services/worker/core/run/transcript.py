"""What a run has said and heard, as messages; the oldest results are shortened if it gets long."""

import json
from collections.abc import Iterator
from collections.abc import Set as AbstractSet

from answerbus.call_outcome import CallOk
from answerbus.private.runs import RunStepRecord
from answerbus.request import Message
from services.digest import bytes_digest
from services.worker.core.json_schema.keywords import JsonObject
from services.worker.core.run.repeats import remark_after
from services.worker.core.run.run import Run, ToolCall

# Small models make a call again that was answered, unless they are told that they may end.
RESULTS_ARE_IN = (
    "These are the results. Answer with a {end} if they suffice; call a tool again only for what "
    "they do not tell."
)
END_DEFAULT = "text_response"
KEPT_SHARE = 0.5  # of the limit, once it is reached: so that it is not reached by each step anew

_NOTHING: AbstractSet[str] = frozenset()


def transcript(run: Run, end: str = END_DEFAULT) -> Iterator[Message]:
    """Each step as the model's own words, then what its calls came to, as data.

    `end` is the kind of action that ends the run.
    """
    shortened = _shortened(run)
    for count, step in enumerate(run.steps, start=1):
        yield from _told(run, step, count, shortened, end)


def transcript_bytes(run: Run) -> int:
    """How much of the next prompt the run itself is."""
    return sum(map(_size, transcript(run)))


def _told(
    run: Run,
    step: RunStepRecord,
    count: int,
    shortened: AbstractSet[str] = _NOTHING,
    end: str = END_DEFAULT,
) -> Iterator[Message]:
    yield Message(role="assistant", content=_said(run, step), trust="trusted")
    for call in run.calls_of(step):
        if call.outcome is not None:
            told = _outcome(call, is_shortened=call.asked.call_id in shortened)
            yield Message(role="user", content=f"{call.asked.tool}: {told}")
    remark = remark_after(run.steps[:count]) or RESULTS_ARE_IN.format(end=end)
    yield Message(role="user", content=remark, trust="trusted")


def _said(run: Run, step: RunStepRecord) -> str:
    """The step as the model itself wrote it, without thoughts unless the agent remembers them."""
    thoughts = step.thoughts if run.definition.remember_thoughts else ()
    actions: list[JsonObject] = []
    actions += [{"kind": "thought", "content": text} for text in thoughts]
    actions += [{"kind": "text_response", "content": text} for text in step.said]
    for call in step.calls:
        actions.append({"kind": "tool_call", "name": call.tool, "args": call.args})
    return json.dumps({"actions": actions}, ensure_ascii=False)


def _outcome(call: ToolCall, *, is_shortened: bool) -> str:
    """The end of a call as the model reads it."""
    if call.outcome is None:
        raise ValueError("a call that is open is not told")
    text = json.dumps(call.outcome.model_dump(mode="json"), ensure_ascii=False)
    if not is_shortened:
        return text
    raw = text.encode()
    return json.dumps({"kind": "elided", "bytes": len(raw), "digest": bytes_digest(raw)})


def _shortened(run: Run) -> AbstractSet[str]:
    """The calls whose results are told by size and digest alone.

    A function of the run: the same steps are told in the same words, and what was shortened once
    stays so.
    """
    limit = run.definition.transcript_bytes_max
    gains: dict[str, int] = {}  # by call, oldest first: what shortening it would free
    gone: set[str] = set()
    total = 0
    for count, step in enumerate(run.steps, start=1):
        total += sum(map(_size, _told(run, step, count)))
        for call in run.calls_of(step):
            if isinstance(call.outcome, CallOk):
                short = len(_outcome(call, is_shortened=True).encode())
                whole = len(_outcome(call, is_shortened=False).encode())
                gains[call.asked.call_id] = whole - short
        if total > limit:
            total -= _free(gains, gone, total - int(limit * KEPT_SHARE))
    return gone


def _free(gains: dict[str, int], gone: set[str], wanted: int) -> int:
    """Shorten the oldest results until so much is freed; gives how much that was."""
    freed = 0
    for call_id, gain in list(gains.items()):
        if freed >= wanted:
            break
        del gains[call_id]
        if gain > 0:
            gone.add(call_id)
            freed += gain
    return freed


def _size(message: Message) -> int:
    return len(message.content.encode())

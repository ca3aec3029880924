"""A run so far, as messages of a prompt; the oldest results are shortened if it gets long."""

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import lru_cache
from weakref import ref

from answerbus.call_outcome import CallOk
from answerbus.private.runs import RunStepRecord
from answerbus.request import Message
from services.worker.core.json_schema.keywords import JsonObject
from services.worker.core.run.delegation import call_names
from services.worker.core.run.repeats import failed, key_of, remark_after, was_answered
from services.worker.core.run.run import Run, ToolCall
from services.worker.core.run.run_message import RunMessage, result_message
from services.worker.core.run.transcript_draft import PromptRoom, TranscriptDraft

# Small models make a call again that was answered, unless they read in which form they end, and
# where calls are mentioned here at all (decision 0149).
RESULTS_ARE_IN = "These are the results. When they suffice, answer with {end}."
TEXT_FORM = '{"actions": [{"kind": "text_response", "content": …}]}'
FINISH_FORM = '{"actions": [{"kind": "finish", "args": …}]}'
# No part of a result, where a small model takes it for the answer.
NOT_CALLED_AGAIN = "A call that succeeded in the step before was not made again: see its result. "
EDITED = " (a person changed its arguments)"  # also where the result is shortened
REMARKS_MAX = 64  # of different texts


@dataclass(frozen=True, slots=True)
class Transcript:
    """The messages; `fresh` are the places of those that the last prompt did not have.

    `fits`: it is within its limits, be it since results are shortened. The next one of its run
    goes on from its `draft`.
    """

    messages: tuple[Message, ...] = ()
    fresh: frozenset[int] = frozenset()
    fits: bool = True
    draft: TranscriptDraft | None = field(default=None, compare=False, repr=False)


def transcript(
    run: Run,
    end: str = TEXT_FORM,
    room: PromptRoom | None = None,
    before: TranscriptDraft | None = None,
) -> Transcript:
    """Each step as the model's own words, then what its calls came to, as data.

    `end` is the form of the answer that ends the run. The messages are a function of the run: the
    same steps give the same words, and what was shortened once stays so. They are the same with
    the draft of `before`, which is not written again.
    """
    if before is not None and before.is_begin_of(run, end, room):
        draft = before.copy()
    else:
        definition = run.definition
        draft = TranscriptDraft(ref(definition), definition.transcript_bytes_max, end, room)
    for step, calls in call_names(run, first=len(draft.steps)):
        draft.begin(step)
        draft.records |= {
            call.asked.call_id: None if call.record is None else ref(call.record)
            for _, call in calls
        }
        for message in _messages_of(run, step, calls, draft):
            draft.add(message)
        draft.shorten()
    return Transcript(tuple(draft.messages), frozenset(draft.fresh), draft.load <= 1, draft)


def write_messages(run: Run, first: int = 0) -> Iterator[RunMessage]:
    """Write the messages that take time, one after the other: `transcript` then finds them.

    `first`: so many steps were written before.
    """
    for step, calls in call_names(run, first):
        yield _said(run, step)
        for name, call in calls:
            if isinstance(call.outcome, CallOk):
                yield _ended_well(run, name, call, call.outcome)


def _messages_of(
    run: Run, step: RunStepRecord, calls: Iterable[tuple[str, ToolCall]], draft: TranscriptDraft
) -> Iterator[RunMessage]:
    """Messages. The failures of the draft are counted on."""
    failures, worst = draft.failures, 0
    yield _said(run, step)
    for name, call in calls:
        match call.outcome:
            case None:
                continue
            case CallOk() as found:
                yield _ended_well(run, name, call, found)
            case found:
                outcome = found.model_dump(mode="json")
                if failed(call):
                    key = key_of(call)
                    failures[key] += 1
                    worst = max(worst, failures[key])
                    if failures[key] > 1:
                        outcome["failures"] = failures[key]
                text = json.dumps(outcome | _edited(call), ensure_ascii=False)
                yield RunMessage(result_message(_head(run, name, call), text))
    yield _remark_on(run, step, len(draft.steps), draft.end, worst)


def _remark_on(run: Run, step: RunStepRecord, count: int, end: str, worst: int) -> RunMessage:
    """Results of steps that made the same calls are compared, which is done once."""

    def write() -> RunMessage:
        note = NOT_CALLED_AGAIN if any(map(was_answered, run.calls_of(step))) else ""
        text = remark_after(run, count, end, worst) or RESULTS_ARE_IN.format(end=end)
        return _remark(note + text)

    is_last = step is run.steps[-1]  # whose calls may be open
    return write() if is_last else _written(run, (None, f"remark {step.n}"), step, write)


def _ended_well(run: Run, name: str, call: ToolCall, outcome: CallOk) -> RunMessage:
    head = _head(run, name, call)

    def write() -> RunMessage:
        ended = {"kind": outcome.kind, "value": outcome.value, **_edited(call)}
        return RunMessage(result_message(head, json.dumps(ended, ensure_ascii=False)), head)

    return _written(run, (head, call.asked.call_id), outcome, write)


def _written(
    run: Run, key: tuple[str | None, str], of: object, write: Callable[[], RunMessage]
) -> RunMessage:
    """As it was written before, if it is of the same object."""
    known = run.messages.get(key)
    if known is None or not known.is_of(of):
        known = run.messages[key] = replace(write(), of=ref(of))
    return known


@lru_cache(REMARKS_MAX)
def _remark(text: str) -> RunMessage:
    """Nearly all steps of all runs end with the same one."""
    return RunMessage(Message(role="user", content=text, trust="trusted"))


def _head(run: Run, name: str, call: ToolCall) -> str:
    """How the end of a call begins; only a run that may delegate has a use for the call's name."""
    tool = call.asked.tool + (EDITED if call.edited else "")
    return f"{name} {tool}" if run.definition.delegate else tool


def _edited(call: ToolCall) -> JsonObject:
    return {"args": call.edited.args} if call.edited else {}


def _said(run: Run, step: RunStepRecord) -> RunMessage:
    return _written(run, (None, str(step.n)), step, lambda: _words_of(run, step))


def _words_of(run: Run, step: RunStepRecord) -> RunMessage:
    """The step as the model itself wrote it, without thoughts unless the agent remembers them."""
    thoughts = step.thoughts if run.definition.remember_thoughts else ()
    actions: list[JsonObject] = []
    actions += [{"kind": "thought", "content": text} for text in thoughts]
    actions += [{"kind": "text_response", "content": text} for text in step.said]
    for call in step.calls:
        actions.append({"kind": "tool_call", "name": call.tool, "args": call.args})
    text = json.dumps({"actions": actions}, ensure_ascii=False)
    return RunMessage(Message(role="assistant", content=text, trust="trusted"))

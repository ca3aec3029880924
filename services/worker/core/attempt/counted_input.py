"""The provider's token count of a run's last prompt, and the part that is new since."""

from dataclasses import dataclass

from answerbus.request import Request
from services.worker.core.run.run import Run
from services.worker.core.run.transcript import Transcript


@dataclass(frozen=True, slots=True)
class CountedInput:
    """What the same model was shown before, in `tokens` as its provider has counted them.

    `frame` is the digest of its system text and schema (see Prompt); `fresh` are the messages that
    are shown now and were not shown then.
    """

    tokens: int
    frame: str
    fresh: frozenset[int]


def counted_input(
    request: Request, run: Run, transcript: Transcript, step: Request, model: str
) -> CountedInput | None:
    """Of the prompt for `step`; None if the one before was not counted, or by another model."""
    last = run.steps[-1] if run.steps else None
    if last is None or last.model != model or not last.frame or not last.usage.input_tokens:
        return None
    first, end = len(request.context.messages), len(step.context.messages)
    after = range(first + len(transcript.messages), end)
    fresh = frozenset([*(first + place for place in transcript.fresh), *after])
    return CountedInput(last.usage.input_tokens, last.frame, fresh)

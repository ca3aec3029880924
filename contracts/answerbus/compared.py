"""A question that was asked again of another profile: both answers, and where they differ."""

from typing import Annotated, Literal

from pydantic import Field, JsonValue

from answerbus import limits
from answerbus.budget import Usage
from answerbus.step import Number
from answerbus.wire import OMIT_NONE, Count, Name, Reason, RequestId, Timestamp, Wire, WorkflowId

AnswerOutcome = Literal["answered", "invalid", "refused", "failed"]
JudgedVerdict = Literal["better", "equal", "worse", "undecided"]


class ComparedAnswer(Wire):
    """One call, and the answer: `failed` calls have none, for a reason that is not the model's.

    Of what was recorded, outcome, usage and duration are those of the first call, and `answer` is
    what was published in the end.
    """

    outcome: AnswerOutcome
    profile: Annotated[str, Field(max_length=limits.NAME_CHARS_MAX)] | None = None
    model: Annotated[str, Field(max_length=limits.MODEL_CHARS_MAX)] | None = None
    why: Reason = ""
    answer: JsonValue = None
    usage: Usage = Usage()
    duration_ms: Count | None = None


class FieldAgreement(Wire):
    """Whether a member is the same in both answers, by its RFC 8785 text."""

    path: Annotated[str, Field(max_length=limits.COMPARED_PATH_CHARS_MAX)]
    equal: bool


class Judged(Wire):
    """A judge's verdict on the new answer against the recorded one; it does not know which is new.

    `verdict` is None where its answer is not a valid judgement. `swapped`: it was shown the new
    answer first. `by` is its call, without the answer.
    """

    verdict: JudgedVerdict | None = None
    reason: Reason = ""
    swapped: bool
    by: ComparedAnswer


class Compared(Wire):
    """One question of a comparison, asked once; no request is answered by it.

    `step` is there for a step of a run, which was asked with the recorded steps before it.
    `equal` is there where both have an answer. Answers that no record could hold together are
    `left_out`. `judged` is there where a judge was asked which is better: of two that differ.
    `charged_micro_usd` is what the comparison's own budget was charged.
    """

    kind: Literal["compared"] = "compared"
    event_id: str
    comparison: Name
    request_id: RequestId
    workflow_id: WorkflowId
    step: Annotated[Number | None, OMIT_NONE] = None
    recorded: ComparedAnswer
    again: ComparedAnswer
    equal: bool | None = None
    fields: Annotated[tuple[FieldAgreement, ...], Field(max_length=limits.COMPARED_FIELDS_MAX)] = ()
    left_out: bool = False
    judged: Annotated[Judged | None, OMIT_NONE] = None
    charged_micro_usd: Count = 0
    at: Timestamp

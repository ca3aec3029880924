"""A question to a tool server, whether a call without a result had its effect, and its finding."""

from typing import Annotated, Literal

from pydantic import Field, JsonValue
from pydantic_core import to_jsonable_python

from answerbus.tool_call import CallId, ReplyPlace, Token, ToolName, ToolsetName
from answerbus.tool_result import CallCost, counted_cost
from answerbus.wire import OMIT_FALSY, Digest, Note, Notes, RequestId, Timestamp, Wire, WorkflowId

Question = Annotated[int, Field(ge=1)]


class ToolReconcile(Wire):
    """Asks whether a call had its effect; to find that out must have none itself.

    It is in the partition of its call. `question` counts those about the call, and each has a token
    of its own.
    """

    kind: Literal["tool_reconcile"] = "tool_reconcile"
    call_id: CallId
    question: Question = 1
    request_id: RequestId
    workflow_id: WorkflowId
    toolset: ToolsetName
    tool: ToolName
    args: dict[str, JsonValue]
    args_digest: Digest
    expires_at: Timestamp
    reply: ReplyPlace
    at: Timestamp


class Happened(Wire):
    """The call had its effect; `value` and `micro_usd` are what its result would have said."""

    kind: Literal["happened"] = "happened"
    value: JsonValue = None
    micro_usd: CallCost = None

    def __init__(
        self,
        /,
        *,
        kind: Literal["happened"] = "happened",
        value: object = None,
        micro_usd: float | None = None,
    ) -> None:
        # The effect did happen: an error about its cost or value would leave that unknown.
        cost = counted_cost(micro_usd)
        members = {
            "kind": kind,
            "value": to_jsonable_python(value),
            "micro_usd": micro_usd if cost is None else cost,
        }
        self.__pydantic_validator__.validate_python(members, self_instance=self)

    __init__.__pydantic_base_init__ = True  # type: ignore[attr-defined]  # reading does not call it


class DidNotHappen(Wire):
    """The call had no effect, and none of its deliveries so far can have one any more."""

    kind: Literal["did_not_happen"] = "did_not_happen"


class NotKnown(Wire):
    """It cannot be said now whether the call had its effect."""

    kind: Literal["unknown"] = "unknown"


Finding = Annotated[Happened | DidNotHappen | NotKnown, Field(discriminator="kind")]


class ToolReconciled(Wire):
    """The answer to a question about a call, written where it says, with its token.

    Any tool server may write it: call, workflow, token and finding must be there.
    """

    kind: Literal["tool_reconciled"] = "tool_reconciled"
    call_id: CallId
    question: Question = 1
    workflow_id: WorkflowId
    token: Token
    finding: Finding
    server: Note = ""
    notes: Annotated[Notes, OMIT_FALSY] = ()

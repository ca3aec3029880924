"""The Request event and its parts."""

from typing import Annotated, Literal

from pydantic import Field, JsonValue, ValidationInfo, field_validator
from pydantic_core import PydanticCustomError, PydanticKnownError

from answerbus import limits
from answerbus.account_id import replay_account, workflow_account
from answerbus.agent import AgentRef, Parent, ParentId
from answerbus.budget import Budget
from answerbus.failure import Failure
from answerbus.resumed_run import ResumedRun
from answerbus.wire import (
    IN_64_BITS,
    OMIT_NONE,
    Count,
    Digest,
    Labels,
    Name,
    Reason,
    RequestId,
    RequestPart,
    Wire,
    WorkflowId,
)

Trust = Literal["trusted", "untrusted"]


class ContractRef(RequestPart):
    """The answer must satisfy a registered contract."""

    kind: Literal["contract"] = "contract"
    name: Name
    version: Annotated[int, Field(ge=1), IN_64_BITS]


class InlineRef(RequestPart):
    """The answer must satisfy the JSON Schema that the request carries.

    `wrapped` (the default) gives the model an honest way out: it answers with an object of
    `output`, `success`, `notes` and `failure_reason`, and only `output` obeys the schema.
    """

    kind: Literal["inline"] = "inline"
    name: Name
    description: Reason = ""
    wrapped: bool = True
    json_schema: dict[str, JsonValue] | bool


class TextRef(RequestPart):
    """The answer is plain text."""

    kind: Literal["text"] = "text"


SchemaRef = Annotated[ContractRef | InlineRef | TextRef, Field(discriminator="kind")]


class ContractId(Wire):
    """A contract as an answer names it; `digest` is that of its published JSON Schema."""

    kind: Literal["contract"] = "contract"
    name: Name
    version: Annotated[int, Field(ge=1)]
    digest: Digest


class InlineId(Wire):
    """An inline schema as an answer names it; `digest` is that of the caller's own schema."""

    kind: Literal["inline"] = "inline"
    name: Name
    wrapped: bool
    digest: Digest


class TextId(Wire):
    """Plain text as an answer names it; `digest` is that of `{"type":"string"}`."""

    kind: Literal["text"] = "text"
    digest: Digest


SchemaId = Annotated[ContractId | InlineId | TextId, Field(discriminator="kind")]


class Message(RequestPart):
    """One turn of a conversation that the answer should take into account."""

    role: Literal["user", "assistant"]
    content: str
    trust: Trust = "untrusted"


class Fact(RequestPart):
    """A named piece of data; untrusted unless upstream vouches for it."""

    name: Annotated[str, Field(min_length=1, max_length=limits.NAME_CHARS_MAX)]
    value: JsonValue
    trust: Trust = "untrusted"


class Context(RequestPart):
    """The model's input: instructions (trusted), conversation and facts."""

    instructions: Annotated[str, Field(min_length=1)]
    messages: Annotated[tuple[Message, ...], Field(max_length=limits.MESSAGES_MAX)] = ()
    facts: Annotated[tuple[Fact, ...], Field(max_length=limits.FACTS_MAX)] = ()


class Policy(RequestPart):
    """What to do when an answer is not what was asked for, and in which order to run."""

    on_invalid: Literal["retry", "dead_letter"] = "retry"
    on_refusal: Literal["publish", "retry"] = "publish"
    at_last: Literal["dead_letter", "text", "unvalidated"] = "dead_letter"
    ordering: Literal["workflow", "none"] = "workflow"


def _is_one(value: object) -> bool:
    return value == 1


class Prior(Wire):
    """An earlier attempt: why it failed, and its answer without audit-only fields, if kept.

    Of an answer that is `malformed` it is the text as written. `answer_digest` is that of the
    attempt, and `times` how often this very answer had come by then, where it came before.
    """

    attempt: Annotated[Count, IN_64_BITS]
    failure: Failure
    answer: JsonValue = None
    answer_digest: Annotated[Digest | None, OMIT_NONE] = None
    times: Annotated[int, Field(ge=1, exclude_if=_is_one), IN_64_BITS] = 1


class Replay(Wire):
    """Where a replayed request comes from, as the request itself says.

    Written by the replay tool alone. `account` is derived from workflow and dead letter. The
    Replayed event names the operator: any publisher of requests may write any `by`.
    """

    dead_letter_id: str
    round: Annotated[int, Field(ge=1), IN_64_BITS]
    account: Annotated[str, Field(min_length=1, max_length=2 * limits.WORKFLOW_ID_CHARS_MAX)]
    by: Reason
    edited: bool


class Request(RequestPart):
    """One question of an upstream service; immutable."""

    kind: Literal["request"] = "request"
    request_id: RequestId
    workflow_id: WorkflowId
    answer_schema: SchemaRef
    context: Context
    profile: Name = "default"
    budget: Budget = Budget()
    agent: Annotated[AgentRef | None, OMIT_NONE] = None
    parent: Annotated[Parent | None, OMIT_NONE] = None
    ttl_s: Annotated[int, Field(ge=1, le=limits.RUN_TTL_S_MAX)] = limits.TTL_S_DEFAULT
    policy: Policy = Policy()
    prior: Annotated[tuple[Prior, ...], Field(max_length=limits.PRIOR_ENTRIES_MAX)] = ()
    labels: Labels = {}
    replay: Replay | None = None
    resumed: Annotated[ResumedRun | None, OMIT_NONE] = None

    @field_validator("resumed")
    @classmethod
    def _only_runs_go_on(
        cls, resumed: ResumedRun | None, seen: ValidationInfo
    ) -> ResumedRun | None:
        if resumed is not None and not (seen.data.get("agent") and seen.data.get("replay")):
            raise PydanticCustomError("no_run", "a replay that an agent works on")
        return resumed

    @field_validator("ttl_s")
    @classmethod
    def _only_runs_last_for_days(cls, ttl_s: int, seen: ValidationInfo) -> int:
        if ttl_s > limits.TTL_S_MAX and seen.data.get("agent") is None:
            raise PydanticKnownError("less_than_equal", {"le": limits.TTL_S_MAX})
        return ttl_s

    @property
    def names_budget(self) -> bool:
        """Whether it says what its workflow may spend; else it adds its own attempts to that."""
        return "budget" in self.model_fields_set

    @property
    def parent_id(self) -> ParentId | None:
        """The parent as outcomes name it."""
        asked = self.parent
        return asked and ParentId(
            request_id=asked.request_id, call_id=asked.call_id, depth=asked.depth
        )

    @property
    def account_id(self) -> str:
        """The account that this request is charged to: its workflow's, or the replay's own.

        It is derived, never taken from `replay.account`, which any publisher may have written.
        """
        if self.replay is None:
            return workflow_account(self.workflow_id)
        return replay_account(self.workflow_id, self.replay.dead_letter_id)

"""What an MCP server asks for in the middle of a call, as a question to a person, and back; pure.

Between the question and its answer nothing is kept here: the state names all that goes back.
"""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

import mcp_types as types
from pydantic import BaseModel, ConfigDict, Field, JsonValue, TypeAdapter, ValidationError

from answerbus.continued_call import GivenInput, ToolQuestion
from answerbus.limits import REASON_BYTES_MAX, RUN_TTL_S_MAX, TOOL_STATE_BYTES_MAX
from answerbus.tool_result import INPUT_REQUIRED
from answerbus.tools.core.failing import ToolError
from answerbus.wire import clip
from services.tools.mcp.mapping.listed import MCP_ERROR

AT_ONCE_MAX = 8  # requests for input that become one question
_NO_WORDS = "The MCP server asks for input, and says not why."

Keys = tuple[str, ...]


class _Place(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    def written(self) -> str:
        """As the state of a call. Raises ToolError where that is too large."""
        text = self.model_dump_json()
        if len(text.encode()) > TOOL_STATE_BYTES_MAX:
            limit = f"{TOOL_STATE_BYTES_MAX:,} bytes"
            raise ToolError(
                INPUT_REQUIRED, f"the state that its server gives has more than {limit}"
            )
        return text


class Round(_Place):
    """A call that its server answered with requests for input: it is made again with responses."""

    kind: Literal["round"] = "round"
    request_state: str | None
    keys: Keys


class TaskPlace(_Place):
    """A task of the server: `asked` are the keys of the open question, `answered` earlier ones."""

    kind: Literal["task"] = "task"
    task_id: str
    asked: Keys = ()
    answered: Keys = ()


Place = Round | TaskPlace
_PLACE: TypeAdapter[Place] = TypeAdapter(Annotated[Place, Field(discriminator="kind")])


def read_place(state: str) -> Place:
    """Where a call goes on. Raises ToolError for a state of another version."""
    try:
        return _PLACE.validate_json(state)
    except ValidationError:
        raise ToolError(MCP_ERROR, "this bridge cannot read the state of the call") from None


def question_of(
    requests: Mapping[str, types.InputRequest], expires_s: float | None = None
) -> ToolQuestion:
    """Several become one form. Raises ToolError for what no person can be asked."""
    forms = {key: _form(request) for key, request in requests.items()}
    if len(forms) > AT_ONCE_MAX:
        raise ToolError(INPUT_REQUIRED, f"its server asks for more than {AT_ONCE_MAX} inputs")
    words = "\n".join(form.message for form in forms.values()).strip() or _NO_WORDS
    try:
        return ToolQuestion(
            question=clip(words, REASON_BYTES_MAX),
            json_schema=_schema([form.requested_schema for form in forms.values()], tuple(forms)),
            expires_s=None if expires_s is None else int(min(max(1, expires_s), RUN_TTL_S_MAX)),
        )
    except ValidationError as error:
        why = error.errors(include_url=False, include_input=False)[0]["msg"]
        raise ToolError(INPUT_REQUIRED, f"no person can be asked for it: {why}") from None


def responses_of(keys: Keys, given: GivenInput) -> types.InputResponses:
    """The answer of a person by the keys of the server. Raises ToolError for odd values."""
    if given.value is None:
        return dict.fromkeys(keys, types.ElicitResult(action="decline"))
    values = [given.value] if len(keys) == 1 else [_member(given.value, key) for key in keys]
    return {key: _accepted(value) for key, value in zip(keys, values, strict=True)}


def _form(request: types.InputRequest) -> types.ElicitRequestFormParams:
    match request:
        case types.ElicitRequest(params=types.ElicitRequestFormParams() as form):
            if form.requested_schema.get("type") == "object":
                return form
            raise ToolError(INPUT_REQUIRED, "its server asks for input that is not a form")
        case types.ElicitRequest():
            raise ToolError(INPUT_REQUIRED, "its server asks to visit an address")
        case _:
            raise ToolError(
                INPUT_REQUIRED, f"no person can give what it asks for: {request.method}"
            )


def _schema(schemas: Sequence[dict[str, Any]], keys: Keys) -> dict[str, Any]:
    if len(schemas) == 1:
        return schemas[0]
    properties = dict(zip(keys, schemas, strict=True))
    return {"type": "object", "properties": properties, "required": list(keys)}


def _member(value: JsonValue, key: str) -> JsonValue:
    return value.get(key) if isinstance(value, dict) else None


def _accepted(value: JsonValue) -> types.ElicitResult:
    try:
        return types.ElicitResult.model_validate({"action": "accept", "content": value})
    except ValidationError:
        raise ToolError(INPUT_REQUIRED, "its server asks for more than forms of MCP have") from None

"""A Python function as a tool: its signature becomes the schema, its docstring the words; pure."""

import inspect
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, get_type_hints

from pydantic import (
    BaseModel,
    ConfigDict,
    JsonValue,
    PydanticUserError,
    TypeAdapter,
    ValidationError,
    create_model,
)

from answerbus.client.closed_schema import ClosedSchema
from answerbus.fail_fast import JsonReader
from answerbus.limits import TOOL_TIMEOUT_S_DEFAULT
from answerbus.problems import problems_of
from answerbus.tools.core.reconciler import Reconciler
from answerbus.tools.core.tool import InvalidArgs, Tool, ValidArgs
from answerbus.toolset_card import ApprovalRule, Delivery, ToolCard

Function = Callable[..., Any]
_KEYWORD_KINDS = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


class ToolSignatureError(TypeError):
    """A function that cannot be a tool: says which one, and what to change."""


@dataclass(frozen=True, slots=True)
class ToolOptions:
    """The options of a tool's decorator."""

    name: str | None = None
    description: str | None = None
    delivery: Delivery = "at_least_once"
    approval: ApprovalRule = "never"
    timeout_s: float = TOOL_TIMEOUT_S_DEFAULT
    repeatable: bool = False
    reconcile: Reconciler | None = None


def function_tool(function: Function, options: ToolOptions, call_type: type) -> Tool:
    """The tool that a function is. Raises ToolSignatureError."""
    if not callable(function) or not hasattr(function, "__name__"):
        raise ToolSignatureError(
            f"A tool is a function, and {function!r} is not: write a function that calls it."
        )
    name = options.name or function.__name__
    if inspect.isasyncgenfunction(function):
        raise ToolSignatureError(f"The tool {name} yields values: let it return one.")
    hints = _hints(function, name)
    taken, wants_call = _parameters(function, hints, call_type, name)
    model, is_whole = _model(function, taken, hints, name)
    adapter: TypeAdapter[Any] = TypeAdapter(model)
    schema = _schema(adapter, name)
    card = _card(name, _description(function, model, options, is_whole=is_whole), schema, options)

    def call(args: object, tool_call: object) -> object:
        # Not by `getattr`: a model has attributes of its own, such as `model_extra`.
        first: Mapping[str, object] = {next(iter(taken)): args} if is_whole else vars(args)
        return function(**first, **({wants_call: tool_call} if wants_call else {}))

    is_async = inspect.iscoroutinefunction(function)
    return Tool(card, _reader(adapter, schema), call, is_async, options.reconcile)


def _hints(function: Function, name: str) -> Mapping[str, Any]:
    try:
        return get_type_hints(function, include_extras=True)
    except (NameError, TypeError) as error:
        raise ToolSignatureError(
            f"The tool {name} has an annotation that cannot be read ({error}): define its types "
            "at the top level of a module."
        ) from error


def _parameters(
    function: Function, hints: Mapping[str, Any], call_type: type, name: str
) -> tuple[Mapping[str, inspect.Parameter], str | None]:
    """Those that the model fills, and the one that takes the call."""
    try:
        parameters = inspect.signature(function).parameters
    except ValueError as error:
        raise ToolSignatureError(
            f"The tool {name} does not say what it takes: write a function that calls it."
        ) from error
    for parameter in parameters.values():
        if parameter.kind not in _KEYWORD_KINDS:
            raise ToolSignatureError(
                f"The tool {name} takes {parameter}: a model can fill named parameters alone."
            )
        if parameter.name not in hints:
            raise ToolSignatureError(
                f"The tool {name} does not say the type of {parameter.name}: annotate it."
            )
    calls = [one for one in parameters if hints[one] is call_type]
    if len(calls) > 1:
        raise ToolSignatureError(f"The tool {name} takes the call twice: once is enough.")
    taken = {one: found for one, found in parameters.items() if one not in calls}
    return taken, calls[0] if calls else None


def _model(
    function: Function,
    taken: Mapping[str, inspect.Parameter],
    hints: Mapping[str, Any],
    name: str,
) -> tuple[type[BaseModel], bool]:
    """The type of all arguments; whether the function takes it whole."""
    if len(taken) == 1:
        found = hints[next(iter(taken))]
        if isinstance(found, type) and issubclass(found, BaseModel):
            return found, True
    fields: dict[str, Any] = {
        one: (hints[one], ... if given.default is inspect.Parameter.empty else given.default)
        for one, given in taken.items()
    }
    try:
        made: type[BaseModel] = create_model(
            function.__name__, __config__=ConfigDict(extra="forbid"), **fields
        )
    except (NameError, PydanticUserError, TypeError, ValueError) as error:
        raise ToolSignatureError(f"The tool {name} has a parameter of no use: {error}") from error
    for one in fields.keys() - made.model_fields.keys():  # pydantic keeps such names for itself
        if taken[one].default is inspect.Parameter.empty:
            raise ToolSignatureError(
                f"The tool {name} needs {one}, and no argument can have this name: rename it."
            )
    return made, False


def _schema(adapter: TypeAdapter[Any], name: str) -> dict[str, JsonValue]:
    try:
        schema: dict[str, JsonValue] = adapter.json_schema(schema_generator=ClosedSchema)
    except PydanticUserError as error:
        raise ToolSignatureError(
            f"The arguments of the tool {name} have no JSON Schema: {error}"
        ) from error
    if schema.get("type") != "object":
        raise ToolSignatureError(f"The arguments of the tool {name} must be an object of members.")
    return schema


def _description(
    function: Function, model: type[BaseModel], options: ToolOptions, *, is_whole: bool
) -> str:
    """As given, else the function's docstring, else that of its arguments."""
    own = model.__dict__.get("__doc__") if is_whole else None
    return inspect.cleandoc(options.description or function.__doc__ or own or "")


def _card(
    name: str, description: str, schema: dict[str, JsonValue], options: ToolOptions
) -> ToolCard:
    if options.reconcile and options.delivery != "at_most_once":
        raise ToolSignatureError(
            f"The tool {name} has a reconciler and may run again: give it "
            'delivery="at_most_once", or leave the reconciler out.'
        )
    try:
        card = ToolCard(
            name=name,
            description=description,
            args_schema=schema,
            delivery=options.delivery,
            approval=options.approval,
            timeout_s=options.timeout_s,
            repeatable=options.repeatable,
            reconcilable=options.reconcile is not None,
        )
    except ValidationError as error:
        raise ToolSignatureError(f"The tool {name} cannot be announced: {error}") from error
    return sealed(card)


def sealed(card: ToolCard) -> ToolCard:
    """The card with its digest."""
    return card.model_copy(update={"digest": card.computed_digest()})


def _reader(
    adapter: TypeAdapter[Any], schema: dict[str, JsonValue]
) -> Callable[[dict[str, JsonValue]], ValidArgs | InvalidArgs]:
    # The schema was closed where its classes ignore what they do not know: so must reading be.
    # Classes that keep such members say so in the schema, and no rule of ours overrides them.
    options: dict[str, Any] = {} if _keeps_more(schema) else {"extra": "forbid"}
    reader = JsonReader(adapter)

    def validate(args: dict[str, JsonValue]) -> ValidArgs | InvalidArgs:
        try:
            return ValidArgs(reader.validate_json(json.dumps(args).encode(), **options))
        except ValidationError as error:
            return InvalidArgs(problems_of(error, args))

    return validate


def _keeps_more(schema: JsonValue) -> bool:
    match schema:
        case dict():
            kept = schema.get("additionalProperties") not in (None, False)
            return kept or any(map(_keeps_more, schema.values()))
        case list():
            return any(map(_keeps_more, schema))
        case _:
            return False

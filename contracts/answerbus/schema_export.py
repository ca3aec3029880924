"""The JSON Schemas of all events and contracts as files, for readers in any language; pure."""

import json
import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any, get_args

from pydantic import BaseModel, JsonValue, TypeAdapter
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaMode
from pydantic_core import core_schema

from answerbus.contract import Contract
from answerbus.control import Approval, Cancel, Input
from answerbus.event import Event
from answerbus.reconcile import ToolReconciled
from answerbus.registry import BUILT_IN
from answerbus.request import Request
from answerbus.tool_result import ToolProgress, ToolResult
from answerbus.toolset_card import ToolsetCard

_READ = (
    Request,
    ToolResult,
    ToolProgress,
    ToolReconciled,
    ToolsetCard,
    Approval,
    Input,
    Cancel,
)  # others write these, too
_DIALECT = "https://json-schema.org/draft/2020-12/schema"


class _OnTheWire(GenerateJsonSchema):
    """Records of ours have every field but those that are omitted when empty."""

    def field_is_required(
        self,
        field: core_schema.ModelField | core_schema.DataclassField | core_schema.TypedDictField,
        total: bool,  # noqa: FBT001 - pydantic's signature
    ) -> bool:
        """So is the tag of a union, by which readers match its cases, although it has a default."""
        written = self.mode == "serialization" and "serialization_exclude_if" not in field
        return written or _is_tag(field["schema"]) or super().field_is_required(field, total)

    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ARG002 - pydantic's signature
        """Never: such titles repeat the fields' names."""
        return False


def documents(contracts: Iterable[Contract[Any]] = BUILT_IN) -> dict[str, str]:
    """The text of each file by its path, always the same for the same code."""
    models = event_models()
    files = {f"events/{kind}.v1.json": event_schema(kind, models[kind]) for kind in models}
    answers: dict[str, tuple[JsonSchemaMode, Any]] = {}
    for contract in contracts:
        name = f"contracts/{contract.name}.v{contract.version}"
        files[f"{name}.json"] = contract.schema()
        files[f"{name}.asked.json"] = contract.asked_schema()
        answers[_type_name(contract)] = ("serialization", contract.answer)
    public = [model for model in models.values() if not _is_private(model)]
    events = {_title(model): (_mode(model), model) for model in public}
    files["types.v1.json"] = bundle(events, answers, _OnTheWire)
    return {path: _text(schema) for path, schema in sorted(files.items())}


def _type_name(contract: Contract[Any]) -> str:
    words = re.split(r"[^A-Za-z0-9]+", contract.name)
    return f"{''.join(word[:1].upper() + word[1:] for word in words)}V{contract.version}"


def _is_private(model: type[BaseModel]) -> bool:
    return model.__module__.startswith("answerbus.private.")


def event_models() -> Mapping[str, type[BaseModel]]:
    """The class of each event by its kind."""
    return {model.model_fields["kind"].default: model for model in _classes(Event)}


def event_schema(kind: str, model: type[BaseModel]) -> dict[str, JsonValue]:
    """The schema of an event as it is on the wire: what others write as read, ours as written."""
    schema = model.model_json_schema(mode=_mode(model), schema_generator=_OnTheWire)
    return {
        "$schema": _DIALECT,
        "$id": f"urn:answerbus:event:{kind}.v1",
        **schema,
        "title": _title(model),
    }


def _mode(model: type[BaseModel]) -> JsonSchemaMode:
    return "validation" if model in _READ else "serialization"


def _title(model: type[BaseModel]) -> str:
    return model.__name__.partition("[")[0]


def _is_tag(schema: Any) -> bool:
    inner = schema.get("schema", {})
    return bool(inner.get("type") == "literal" and len(inner["expected"]) == 1)


def _classes(form: Any) -> Iterable[type[BaseModel]]:
    if isinstance(form, type):
        return (form,)
    return (model for part in get_args(form) if not _is_metadata(part) for model in _classes(part))


def _is_metadata(part: Any) -> bool:
    return not isinstance(part, type) and not get_args(part)


def _text(schema: Mapping[str, JsonValue]) -> str:
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"


Schema = dict[str, Any]
Types = Mapping[str, tuple[JsonSchemaMode, Any]]  # by name: whether it is read, or written by us

_LOCAL = "#/$defs/"
_ANY_JSON = "JsonValue"
_HINTS = frozenset({"title", "default", "discriminator"})
"""Keywords for which generators invent names, or write defaults that do not compile."""


def bundle(
    events: Types, answers: Types, generator: type[GenerateJsonSchema]
) -> dict[str, JsonValue]:
    """All events as one union, and the answers of contracts beside it."""
    inputs = [
        (name, mode, TypeAdapter[Any](form)) for name, (mode, form) in {**events, **answers}.items()
    ]
    roots, shared = TypeAdapter.json_schemas(inputs, schema_generator=generator)
    defs = {name: part for name, part in shared["$defs"].items() if name != _ANY_JSON}
    names = dict[str, str]()
    for (name, _), root in roots.items():
        place = root.get("$ref", name).removeprefix(_LOCAL)
        names[place] = name
        defs.setdefault(place, root)
    names = {name: _plain(name, names.values()) for name in defs} | names
    placed = {names[name]: _named(names[name], schema, names) for name, schema in defs.items()}
    unions = {"AnswerbusEvent": events, "AnswerbusAnswer": answers}
    for union, members in unions.items():
        placed[union] = {"anyOf": [{"$ref": _LOCAL + name} for name in members], "title": union}
    return {
        "$schema": generator.schema_dialect,
        "$id": "urn:answerbus:types.v1",
        "title": "AnswerbusType",
        "anyOf": [{"$ref": _LOCAL + union} for union in unions],
        "$defs": dict(sorted(placed.items())),
    }


def _plain(name: str, taken: Collection[str]) -> str:
    """Types as readers take them are laxer than as writers make them, and are named apart."""
    plain = name.removesuffix("-Output").replace("-", "")
    return f"{plain}Written" if plain in taken else plain


def _named(name: str, schema: Schema, names: Mapping[str, str]) -> Schema:
    return {**_placed(schema, names), "title": name}


def _placed(schema: Any, names: Mapping[str, str]) -> Any:
    match schema:
        case {"$ref": ref, **more} if ref == _LOCAL + _ANY_JSON:
            return _placed(more, names)
        case {"$ref": str(reference), **more}:
            return {"$ref": _LOCAL + names[reference.removeprefix(_LOCAL)], **_placed(more, names)}
        case dict():
            return {
                key: _members(inner, names) if key == "properties" else _placed(inner, names)
                for key, inner in schema.items()
                if key not in _HINTS
            }
        case list():
            return [_placed(inner, names) for inner in schema]
        case _:
            return schema


def _members(properties: Schema, names: Mapping[str, str]) -> Schema:
    return {name: _placed(schema, names) for name, schema in properties.items()}

"""The JSON Schema of a class, closed where the class ignores members that it does not know."""

from typing import Any

from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue

# Beside these the members in `properties` are not all that an answer may have.
_NAMES_MORE = frozenset(
    {"$ref", "$dynamicRef", "$recursiveRef", "allOf", "anyOf", "oneOf", "not", "if", "then", "else"}
    | {"dependentSchemas", "dependentRequired", "dependencies", "patternProperties"}
    | {"propertyNames", "unevaluatedProperties", "minProperties", "const", "enum"}
)


class ClosedSchema(GenerateJsonSchema):
    """Pydantic leaves such a schema open: a model would be asked for members that are not read.

    A class that keeps or forbids them (`extra`) says so itself. A class that changes its schema by
    a method of its own stays as open as that method leaves it.
    """

    def model_schema(self, schema: Any) -> JsonSchemaValue:
        """Of a model; the one member of a root model is not an object of named members."""
        made = super().model_schema(schema)
        is_open = schema.get("root_model") or _has_custom_schema(schema["cls"])
        return made if is_open else _closed(made)

    def dataclass_schema(self, schema: Any) -> JsonSchemaValue:
        """Of a dataclass, pydantic's or Python's own."""
        made = super().dataclass_schema(schema)
        return made if _has_custom_schema(schema["cls"]) else _closed(made)

    def typed_dict_schema(self, schema: Any) -> JsonSchemaValue:
        """Of a TypedDict."""
        made = super().typed_dict_schema(schema)
        return made if _has_custom_schema(schema.get("cls")) else _closed(made)


def _has_custom_schema(cls: object) -> bool:
    """Whether a class, or one that it inherits from, has a say in its own JSON Schema."""
    parents = getattr(cls, "__mro__", ())
    return any(
        "__get_pydantic_json_schema__" in vars(parent)
        for parent in parents
        if not parent.__module__.startswith("pydantic.")
    )


def _closed(schema: JsonSchemaValue) -> JsonSchemaValue:
    names_members = schema.get("type") == "object" and isinstance(schema.get("properties"), dict)
    named = schema.get("properties", {}) if names_members else {}
    if not names_members or schema.keys() & _NAMES_MORE:
        return schema
    if not set(schema.get("required", ())) <= named.keys():
        return schema
    return schema | {"additionalProperties": schema.get("additionalProperties", False)}

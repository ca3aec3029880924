"""The JSON Schema of a class, closed where the class ignores members that it does not know."""

from typing import Any

from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue


class ClosedSchema(GenerateJsonSchema):
    """Pydantic leaves such a schema open: a model would be asked for members that nobody reads.

    A class that keeps or forbids them (`extra`) says so itself, and a schema of one's own counts as
    it is.
    """

    def model_schema(self, schema: Any) -> JsonSchemaValue:
        """Of a model; the one member of a root model is no object of named members."""
        made = super().model_schema(schema)
        return made if schema.get("root_model") else _closed(made)

    def dataclass_schema(self, schema: Any) -> JsonSchemaValue:
        """Of a dataclass, pydantic's or Python's own."""
        return _closed(super().dataclass_schema(schema))

    def typed_dict_schema(self, schema: Any) -> JsonSchemaValue:
        """Of a TypedDict."""
        return _closed(super().typed_dict_schema(schema))


def _closed(schema: JsonSchemaValue) -> JsonSchemaValue:
    names_members = schema.get("type") == "object" and "properties" in schema
    others = schema.get("additionalProperties", False)
    return schema | {"additionalProperties": others} if names_members else schema

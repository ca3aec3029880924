"""What a wire schema for strict providers must be, checked node by node."""

from pydantic import JsonValue

ALLOWED = {
    "object": {"type", "properties", "required", "additionalProperties", "description"},
    "array": {"type", "items", "minItems", "maxItems", "description"},
    "string": {"type", "enum", "pattern", "format", "description"},
    "integer": {"type", "enum", "minimum", "maximum", "multipleOf", "description"},
    "number": {"type", "enum", "minimum", "maximum", "multipleOf", "description"}
    | {"exclusiveMinimum", "exclusiveMaximum"},
    "boolean": {"type", "enum", "description"},
    "null": {"type", "enum", "description"},
}


def faults(schema: dict[str, JsonValue]) -> list[str]:
    """Every breach of the strict subset, with its place; llama.cpp refuses some of them too."""
    definitions = schema.get("$defs", {})
    assert isinstance(definitions, dict)
    root = {keyword: value for keyword, value in schema.items() if keyword != "$defs"}
    found = [] if schema.get("type") == "object" else ["the root is no object"]
    found += _faults(root, "#", set(definitions))
    for name, definition in definitions.items():
        found += _faults(definition, f"#/$defs/{name}", set(definitions))
    return found


def _faults(schema: JsonValue, path: str, names: set[str]) -> list[str]:
    if not isinstance(schema, dict):
        return [f"{path}: a schema that is no object"]
    if "$ref" in schema:
        ref = str(schema["$ref"])
        good = schema.keys() == {"$ref"} and ref.removeprefix("#/$defs/") in names
        return [] if good else [f"{path}: a bad reference"]
    if "anyOf" in schema:
        return _union_faults(schema, path, names)
    types = schema.get("type")
    listed = types if isinstance(types, list) else [types]
    allowed = set().union(*(ALLOWED.get(str(kind), set()) for kind in listed))
    found = [f"{path}: {keyword}" for keyword in schema.keys() - allowed]
    found += [f"{path}: an empty enum"] if schema.get("enum") == [] else []
    found += [f"{path}: bounds that nothing meets"] if _empty(schema) else []
    if "array" in listed:
        found += _faults(schema.get("items"), f"{path}/items", names)
    if "object" in listed:
        found += _object_faults(schema, path, names)
    return found


def _union_faults(schema: dict[str, JsonValue], path: str, names: set[str]) -> list[str]:
    branches = schema["anyOf"]
    if schema.keys() != {"anyOf"} or not isinstance(branches, list) or not branches:
        return [f"{path}: a bad union"]
    return [
        fault
        for index, branch in enumerate(branches)
        for fault in _faults(branch, f"{path}/anyOf/{index}", names)
    ]


def _object_faults(schema: dict[str, JsonValue], path: str, names: set[str]) -> list[str]:
    properties = schema.get("properties")
    if not isinstance(properties, dict):
        return [f"{path}: no properties"]
    found = [] if schema.get("additionalProperties") is False else [f"{path}: open"]
    found += [] if schema.get("required") == list(properties) else [f"{path}: not all required"]
    for name, member in properties.items():
        found += _faults(member, f"{path}/properties/{name}", names)
    return found


def _empty(schema: dict[str, JsonValue]) -> bool:
    pairs = (("minimum", "maximum"), ("minItems", "maxItems"))
    return any(
        _number(schema.get(low), 0) > _number(schema.get(high), 1e300)
        for low, high in pairs
        if low in schema
    )


def _number(value: JsonValue, otherwise: float) -> float:
    return value if isinstance(value, int | float) else otherwise

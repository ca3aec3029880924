"""What a wire schema must be for each strict provider, checked node by node."""

from dataclasses import dataclass, replace

from pydantic import JsonValue

OPENAI = {
    "object": {"type", "properties", "required", "additionalProperties", "description"},
    "array": {"type", "items", "minItems", "maxItems", "description"},
    "string": {"type", "enum", "pattern", "format", "description"},
    "integer": {"type", "enum", "minimum", "maximum", "multipleOf", "description"},
    "number": {"type", "enum", "minimum", "maximum", "multipleOf", "description"}
    | {"exclusiveMinimum", "exclusiveMaximum"},
    "boolean": {"type", "enum", "description"},
    "null": {"type", "enum", "description"},
}


@dataclass(frozen=True)
class Subset:
    """The keywords by type, and what else a provider allows; `free`: values of free form."""

    keywords: dict[str, set[str]]
    all_required: bool = True
    recursion: bool = True
    min_items: int = 1000
    free: bool = False


PLAIN = {kind: {"type", "enum", "description"} for kind in ("string", "integer", "number")} | {
    "object": OPENAI["object"],
    "array": {"type", "items", "description"},
    "boolean": {"type", "description"},
    "null": {"type", "description"},
}
CHOICES = {kind: {*PLAIN[kind], "enum"} for kind in ("boolean", "null")}
LLAMA_CPP = Subset(
    {
        "object": {*OPENAI["object"], "enum"},
        "array": {*OPENAI["array"], "enum"},
        "string": {*OPENAI["string"], "minLength", "maxLength"},
        "integer": {"type", "enum", "minimum", "maximum", "description"},
        **{kind: {"type", "enum", "description"} for kind in ("number", "boolean", "null")},
    },
    all_required=False,
    free=True,
)
_BOUNDS = {"minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum"}
VLLM = replace(
    LLAMA_CPP,
    keywords=LLAMA_CPP.keywords
    | {
        "string": {"type", "enum", "pattern", "format", "description"},
        "number": {"type", "enum", "description"} | _BOUNDS,
    },
)
SUBSETS = {
    "openai": Subset(OPENAI),
    "plain": Subset(PLAIN | CHOICES),
    "anthropic": Subset(
        PLAIN
        | CHOICES
        | {"string": {*PLAIN["string"], "format"}, "array": {*PLAIN["array"], "minItems"}},
        all_required=False,
        recursion=False,
        min_items=1,
    ),
    "gemini": Subset(
        PLAIN
        | {kind: {*PLAIN[kind], "minimum", "maximum"} for kind in ("integer", "number")}
        | {"string": {*PLAIN["string"], "format"}}
        | {"array": {*PLAIN["array"], "minItems", "maxItems"}},
        all_required=False,
        min_items=100,
    ),
    "llama_cpp": LLAMA_CPP,
    "ollama": LLAMA_CPP,
    "vllm": VLLM,
}
_BARE = {"type", "description"}


def faults(schema: dict[str, JsonValue], dialect: str = "openai") -> list[str]:
    """Every breach of a provider's subset, with its place; llama.cpp refuses some of them too."""
    subset = SUBSETS[dialect]
    definitions = schema.get("$defs", {})
    assert isinstance(definitions, dict)
    root = {keyword: value for keyword, value in schema.items() if keyword != "$defs"}
    is_right = schema.get("type") == "object" or subset.free
    found = [] if is_right else ["the root is no object"]
    found += _faults(root, "#", set(definitions), subset)
    for name, definition in definitions.items():
        found += _faults(definition, f"#/$defs/{name}", set(definitions), subset)
    if not subset.recursion:
        circles = [name for name in definitions if _reaches_itself(name, definitions)]
        found += [f"{name}: recursion" for name in circles]
    return found


def _reaches_itself(name: str, definitions: dict[str, JsonValue]) -> bool:
    seen: set[str] = set()
    waiting = [name]
    while waiting:
        for target in _targets(definitions[waiting.pop()]):
            if target == name:
                return True
            if target not in seen:
                seen.add(target)
                waiting.append(target)
    return False


def _targets(schema: JsonValue) -> list[str]:
    match schema:
        case {"$ref": str(ref)}:
            return [ref.removeprefix("#/$defs/")]
        case dict():
            return [target for inner in schema.values() for target in _targets(inner)]
        case list():
            return [target for inner in schema for target in _targets(inner)]
        case _:
            return []


def _faults(schema: JsonValue, path: str, names: set[str], subset: Subset) -> list[str]:
    if not isinstance(schema, dict):
        return [f"{path}: a schema that is no object"]
    if "$ref" in schema:
        ref = str(schema["$ref"])
        good = schema.keys() == {"$ref"} and ref.removeprefix("#/$defs/") in names
        return [] if good else [f"{path}: a bad reference"]
    if "anyOf" in schema:
        return _union_faults(schema, path, names, subset)
    types = schema.get("type")
    listed = types if isinstance(types, list) else [types]
    allowed = set().union(*(subset.keywords.get(str(kind), set()) for kind in listed))
    found = [f"{path}: {keyword}" for keyword in schema.keys() - allowed]
    found += [f"{path}: an empty enum"] if schema.get("enum") == [] else []
    found += [f"{path}: minItems"] if _number(schema.get("minItems"), 0) > subset.min_items else []
    found += [f"{path}: bounds that nothing meets"] if _empty(schema) else []
    if subset.free and (len(listed) > 1 or "enum" in schema or schema.keys() <= _BARE):
        return found
    if "array" in listed:
        found += _faults(schema.get("items"), f"{path}/items", names, subset)
    if "object" in listed:
        found += _object_faults(schema, path, names, subset)
    return found


def _union_faults(
    schema: dict[str, JsonValue], path: str, names: set[str], subset: Subset
) -> list[str]:
    branches = schema["anyOf"]
    is_bare = schema.keys() <= {"anyOf", "description"}
    if not is_bare or not isinstance(branches, list) or not branches:
        return [f"{path}: a bad union"]
    return [
        fault
        for index, branch in enumerate(branches)
        for fault in _faults(branch, f"{path}/anyOf/{index}", names, subset)
    ]


def _object_faults(
    schema: dict[str, JsonValue], path: str, names: set[str], subset: Subset
) -> list[str]:
    properties = schema.get("properties")
    if not isinstance(properties, dict):
        return [f"{path}: no properties"]
    others = schema.get("additionalProperties")
    found = (
        _faults(others, f"{path}/*", names, subset)
        if subset.free and others not in (True, False)
        else []
    )
    found += [] if others is False or subset.free else [f"{path}: open"]
    required = schema.get("required")
    if subset.all_required:
        found += [] if required == list(properties) else [f"{path}: not all required"]
    elif not isinstance(required, list) or required != list(properties)[: len(required)]:
        found += [f"{path}: what is required is not first"]
    for name, member in properties.items():
        found += _faults(member, f"{path}/properties/{name}", names, subset)
    return found


def _empty(schema: dict[str, JsonValue]) -> bool:
    pairs = (("minimum", "maximum"), ("minItems", "maxItems"), ("minLength", "maxLength"))
    return any(
        _number(schema.get(low), 0) > _number(schema.get(high), 1e300)
        for low, high in pairs
        if low in schema
    )


def _number(value: JsonValue, otherwise: float) -> float:
    return value if isinstance(value, int | float) else otherwise

"""What the search for cost begins from, and the pieces that it puts together."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from answerbus.schema_export import event_models
from tests.fuzz.cost.recipe import Recipe
from tests.fuzz.stored import KINDS
from tests.providers.apis import APIS

EXAMPLES = Path(__file__).parents[3] / "contracts" / "examples"
_HOLE = "@HOLE@"

JSON: Sequence[str] = (
    *("{}", "[]", "null", "0", "1.5e-300", "12345678901234567890123", '""', '"§"', '"\\u00e9"'),
    *('{"":0}', '{"§":{}}', '{"kind":"x"}', '{"a":{},"b":[]}', '"\\\\"', '"é"', "true", "-1e5"),
)
SCHEMA: Sequence[str] = (
    *JSON,
    *('{"type":"string"}', '{"const":§}', '{"enum":[1,"a",{"b":2}]}', '{"required":["a§"]}'),
    *('{"properties":{"a§":{}}}', '"unevaluatedProperties":false', '{"pattern":"^(a|b)*c"}'),
    *('{"anyOf":[{},{}]}', '{"$ref":"#/$defs/a"}', '"uniqueItems":true', '{"not":{}}'),
    *(
        '{"format":"idn-email"}',
        '{"multipleOf":0.1}',
        '{"contains":{"const":1}}',
        '{"minLength":9}',
    ),
    *('"additionalProperties":false', '{"propertyNames":{"maxLength":1}}', "a?", "[\\\\p{L}]"),
)
TEXT: Sequence[str] = (
    *("0123456789abcdef", "a", "é", "\\", "\\\\", "%", "%25", "\\u0025", "&#37;", "&amp;", "=\n"),
    *(
        "c2stNGY5YThi",
        "sk-4f9a8",
        "hunter2",
        "68756e74",
        "\u200b",
        "ﬁ",
        "ｎ",
        " ",
        "\n",
        "§",
        "=3D",
    ),
)
DIFF: Sequence[str] = (
    *("--- a/f§\n", "+++ b/f§\n", "@@ -1 +1 @@\n", "-a\n", "+b\n", " \n", "index 1..2\n"),
    *(
        "diff --git a/f§ b/f§\n",
        '"\\303\\251',
        "\t",
        "new file mode 100644\n",
        "é",
        "a/",
        "\\",
        ".",
    ),
)


def _filled(document: Any, place: Sequence[str | int], inner: Recipe) -> Recipe:
    """The document as a recipe, with `inner` in the place of what is there."""
    before, _, after = json.dumps(_put(document, place), separators=(",", ":")).partition(
        f'"{_HOLE}"'
    )
    return ["all", before, inner, after]


def _put(document: Any, place: Sequence[str | int]) -> Any:
    if not place:
        return _HOLE
    first, *rest = place
    found: Any = [*document] if isinstance(document, list) else dict(document)
    found[first] = _put(found[first], rest)
    return found


def _places(value: Any, here: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    pairs: Any = ()
    if isinstance(value, dict):
        pairs = value.items()
    elif isinstance(value, list):
        pairs = enumerate(value[:1])
    inner = [place for key, one in pairs for place in _places(one, (*here, key))]
    return [here, *inner] if here and isinstance(value, dict | list) else inner


def of(kind: str) -> Sequence[Recipe]:
    """An example with many values in each of its lists and objects, as many as are just read."""
    values = 17_500 if kind == "request" else 27_500
    paths = sorted((EXAMPLES / kind).glob("*.json"))[:2]
    return [one for path in paths for one in _loaded(json.loads(path.read_bytes()), values)]


def _loaded(document: Any, values: int) -> list[Recipe]:
    """The document with many values in each of its lists and objects."""
    names: Recipe = ["all", "{", ["times", '"§":{}', values // 3, ","], "}"]
    items: Recipe = ["all", "[", ["times", "{}", values // 2, ","], "]"]
    return [_filled(document, place, one) for place in _places(document) for one in (names, items)]


def of_stored() -> Sequence[Recipe]:
    """The same of each kind of a private topic."""
    return [one for kinds in KINDS.values() for kind in kinds for one in of(kind)[:6]]


def of_events() -> Sequence[Recipe]:
    """The same of each kind."""
    return [one for kind in event_models() for one in of(kind)[:6]]


REPLIES: Sequence[Recipe] = (
    *(one for api in APIS for one in _loaded(api.good, 9_900)),
    ["all", '{"content":"', ["times", "\\u00e9", 340_000, ""], '"}'],
    ["all", '{"error":{"message":"', ["times", "json mode ", 200_000, ""], '"}}'],
)
VALUES: Sequence[Recipe] = (
    ["all", "[", ["times", "1.5e-300", 17_000, ","], "]"],
    ["all", "[", ["times", "-9.123456789012345e-6", 17_900, ","], "]"],
    ["all", "{", ["times", '"é§":1e21', 8_000, ","], "}"],
    ["all", "[", ["times", '"a"', 298, ","], "]\n[", ["times", '"a","b"', 149, ","], "]"],
    ["all", '{"', ["times", "k", 100_000, ""], '":[', ["times", "0", 3_000, ","], "]}"],
    ["all", '["', ["times", "\u202e", 80_000, ""], '"]'],
)
PERSONS: Sequence[Recipe] = (
    ["all", "[", ["times", "1.5e-300", 3_700, ","], "]"],
    ["all", "{", ["times", '"é§":1e21', 1_900, ","], "}"],
    ["all", '"', ["times", "x", 65_000, ""], '"'],
    ["all", '"', ["times", "[]", 32_000, ""], '"'],
)
SCHEMAS: Sequence[Recipe] = (
    ["all", '{"properties":{', ["times", '"§":{}', 30, ","], "}}"],
    ["all", '{"allOf":[', ["times", '{"required":["§"]}', 18, ","], "]}"],
    ["all", '{"anyOf":[', ["times", '{"const":§}', 25, ","], "]}"],
    ["all", '{"pattern":"', ["times", "a?", 190, ""], '"}'],
    ["nested", '{"items":', "{}", "}", 29],
    ["all", '{"patternProperties":{', ["times", '"^a§.*b":{"type":"string"}', 9, ","], "}}"],
)
_STRING = '{"type":"string"}'
CARDS: Sequence[Recipe] = (
    *SCHEMAS,
    ["all", '{"properties":{', ["times", f'"p§":{_STRING}', 280, ","], "}}"],
    ["all", '{"properties":{', ["times", f'"p§":{_STRING}', 2_000, ","], "}}"],
    [
        "all",
        '{"$defs":{',
        ["times", f'"a§":{_STRING}', 140, ","],
        '},"properties":{',
        ["times", '"p§":{"$ref":"#/$defs/a§"}', 140, ","],
        "}}",
    ],
    ["all", '{"enum":[', ["times", '{"a":[§]}', 1_200, ","], "]}"],
)
_MANY: Recipe = ["all", "[", ["times", "0", 17_000, ","], "]"]
_NAMES: Recipe = ["all", "{", ["times", '"m§":0', 8_000, ","], "}"]
_OBJECTS: Recipe = ["all", "[", ["times", "{}", 8_000, ","], "]"]
_WIDE: Recipe = ["all", "[", ["times", "500000000000000000§", 400, ","], "]"]
_FRACTIONS: Recipe = ["all", "[", ["times", "§.25", 8_000, ","], "]"]
_TINY: Recipe = ["all", "[", ["times", "1.5e-300", 8_000, ","], "]"]
_LONG_NUMBER: Recipe = ["times", "7", 4_290, ""]
_PAIRS: Sequence[tuple[Recipe, Recipe]] = (
    ('{"uniqueItems":true}', _WIDE),
    (
        '{"items":{"uniqueItems":true}}',
        ["all", "[", ["times", ["all", "[", ["times", "§.5", 14, ","], "]"], 500, ","], "]"],
    ),
    (["all", '{"items":{"enum":[', ["times", "§.5", 60, ","], "]}}"], _FRACTIONS),
    (
        ["all", '{"items":{"enum":[', ["times", "[§.5]", 60, ","], "]}}"],
        ["all", "[", ["times", "[0.25]", 4_000, ","], "]"],
    ),
    (
        ["all", '{"items":{"allOf":[', ["times", '{"maximum":9999.5}', 12, ","], "]}}"],
        _FRACTIONS,
    ),
    ('{"items":{"multipleOf":5e-324}}', _TINY),
    (["all", '{"items":{"minimum":', _LONG_NUMBER, "}}"], _MANY),
    (
        '{"format":"regex"}',
        ["all", '"', ["times", "(?<n§>a)", 4_000, ""], '"'],
    ),
    (
        [
            "all",
            '{"required":["z"],"anyOf":[{"properties":{',
            ["times", '"§":{}', 900, ","],
            "}},",
            ["times", '{"properties":{}}', 900, ","],
            "]}",
        ],
        "{}",
    ),
    (["all", '{"items":{"enum":[', ["times", '{"a":§}', 990, ","], "]}}"], _MANY),
    (["all", '{"allOf":[', ["times", '{"required":["a§"]}', 900, ","], "]}"], _NAMES),
    (
        ["all", '{"items":{"anyOf":[', ["times", '{"required":["a§"]}', 90, ","], "]}}"],
        _OBJECTS,
    ),
    ('{"items":{"type":"string"}}', _OBJECTS),
    ('{"uniqueItems":true}', ["all", "[", ["times", "[§]", 8_000, ","], "]"]),
    ('{"items":{"format":"regex"}}', ["all", "[", ["times", '"(a|b)*[c]"', 9_000, ","], "]"]),
    (
        ["all", '{"allOf":[', ["times", '{"pattern":"^.*a§"}', 90, ","], "]}"],
        ["all", '"', ["times", "x", 250_000, ""], '"'],
    ),
    (["all", '{"patternProperties":{', ["times", '"^m§.*x$":{}', 90, ","], "}}"], _NAMES),
    (
        [
            "all",
            '{"anyOf":[',
            ["times", '{"properties":{"m§":{}}}', 90, ","],
            '],"unevaluatedProperties":false}',
        ],
        _NAMES,
    ),
)
CHECKED: Sequence[Recipe] = tuple(["all", schema, "\n", answer] for schema, answer in _PAIRS)
_FREE_FORM = (
    '{"type":"array","items":{"type":"object","properties":{"a":{"type":"object"}},'
    '"required":["a"],"additionalProperties":false}}'
)
_NO_TEXTS: Sequence[Recipe] = tuple(
    ["all", '{"answer":[', ["times", text, 4_000, ","], "]}"]
    for text in ('{"a":"{"}', '{"a":"[{}]"}', '{"a":"{}"}', '{"a":"\\n\\n\\n{"}')
)
_IN_EACH_DIALECT: Sequence[Recipe] = tuple(
    ["all", _FREE_FORM, "\n", text, " " * spaces] for text in _NO_TEXTS for spaces in range(7)
)
DECODED: Sequence[Recipe] = (*_IN_EACH_DIALECT, *CHECKED)
_CALLS: Sequence[str] = (
    '{"kind":"tool_call","name":"orders.get","args":{"n":§}}',
    '{"kind":"tool_call","name":"unknown§","args":{}}',
    '{"kind":"tool_call","name":"ask_person","args":{"question":"§","json_schema":{}}}',
    (
        '{"kind":"tool_call","name":"delegate","args":{"name":"p§","description":"d",'
        '"instructions":"i","json_schema":{"type":"object"},"use":["call:1.0","fact:§"]}}'
    ),
)
_OF_ONE_TOOL: Sequence[Recipe] = tuple(
    ["all", '{"actions":[', ["times", one, 32, ","], "]}"] for one in _CALLS
)
STEPS: Sequence[Recipe] = (
    *_OF_ONE_TOOL,
    ["all", '{"actions":[', ["times", _CALLS[1], 500, ","], "]}"],
    [
        "all",
        '{"actions":[{"kind":"tool_call","name":"orders.get","args":{"a":[',
        ["times", "1.5e-300", 4_000, ","],
        "]}}]}",
    ],
)
TEXTS: Sequence[Recipe] = (
    ["times", "0123456789abcdef", 32_000, ""],
    ["times", "68756e7465723268756e7465723200", 8_000, ""],
    ["times", "%2568%2575", 25_000, ""],
    ["times", "\\", 250_000, ""],
    ["times", "\\u0068\\u0075", 20_000, ""],
    ["times", "c2stNGY5YThiN2M2ZDVlNGYzYTJiMWMwZDll", 7_000, ""],
    ["times", "hunter2", 35_000, "\n"],
    ["times", "é", 120_000, ""],
)
PROMPTS: Sequence[Recipe] = (
    ["nested", "[", ["times", "0", 16_000, ","], "]", 180],
    ["times", '{"a":[{},{}]}', 900, "\n"],
    ["all", "{", ["times", '"§":1.5e-300', 8_000, ","], "}"],
    *TEXTS,
)
MASKED: Sequence[Recipe] = (
    ["times", "68756e7465723268756e7465723200", 250, ""],
    ["times", "%2568%2575", 800, ""],
    ["times", "\\u0068\\u0075", 600, ""],
    ["times", "c2stNGY5YThiN2M2ZDVlNGYzYTJiMWMwZDll", 200, ""],
    ["times", "hunter2", 1_000, "\n"],
    ["times", "\\", 8_000, ""],
)
DIFFS: Sequence[Recipe] = (
    ["times", "--- a/f§\n+++ b/f§\n@@ -1 +1 @@\n-a\n+b\n", 1_200, ""],
    ["all", "--- a/f\n+++ b/f\n@@ -1,9 +1,9 @@\n", ["times", "-a\n+b\n", 10_000, ""]],
    ["all", "--- a/", ["times", "a/", 30_000, ""], "\n"],
    ["all", 'diff --git "', ["times", "\\303\\251", 7_000, ""], '"\n'],
)
_INSIDE: Sequence[Recipe] = (_MANY, _NAMES)
PATCHES: Sequence[Recipe] = tuple(
    ["all", "[", ["times", operation, 100, ","], "]\n", inside]
    for operation in (
        '{"op":"add","path":"/x/0","value":1}',
        '{"op":"copy","from":"/x","path":"/x/-"}',
        '{"op":"test","path":"/x","value":[0]}',
        '{"op":"move","from":"/x/0","path":"/x/-"}',
    )
    for inside in _INSIDE
)
_RESULTS: Sequence[Recipe] = (
    ["all", "[", ["times", "{}", 60_000, ","], "]"],
    ["all", "[", ["times", '{"type":"text","text":"§"}', 30_000, ","], "]"],
    ["all", "{", ["times", '"§":{}', 60_000, ","], "}"],
    ["all", '"', ["times", "\\u00e9", 600_000, ""], '"'],
)
MESSAGES: Sequence[Recipe] = tuple(
    ["all", '{"jsonrpc":"2.0","id":1,"result":{"', name, '":', inner, "}}"]
    for name in ("content", "structuredContent", "x")
    for inner in _RESULTS
)

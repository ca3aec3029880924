"""How much work checking a value would be, counted without checking: libraries have no timeout.

All figures are nanoseconds of an ordinary core, estimated from measurements of single keywords.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from pydantic import JsonValue
from pydantic_core import to_json

from services.worker.core.guard.applied import Pair, in_place, inside
from services.worker.core.guard.expansion import expanded
from services.worker.core.guard.patterns import rewriting_ns
from services.worker.core.guard.sizes import Sizes, exponent, json_bytes, utf8_bytes
from services.worker.core.json_schema.document import Document
from services.worker.core.json_schema.keywords import AnySchema, JsonObject

_Applied = tuple[AnySchema, JsonValue, int]

PAIR_NS = 4_000  # of looking at a schema for a value here; a validator takes less
SCHEMA_NS = 60  # of asking a schema at all
VALUE_NS = 1_000  # of measuring a value here
KEYWORD_NS = 30
NAME_NS = 40  # of looking a name up in an object
COMPARED_BYTE_NS = 60  # of a list or object in `enum` or `const`
UNEVALUATED_NS = 15  # for each member or item, in each schema that has a say in it
FRACTION_NS = 1_500  # of comparing numbers, one of them no integer
FRACTION_BIT_NS = 32  # for each bit of their exponents
UNIQUE_BYTE_NS = 40
UNIQUE_ITEM_NS = 600
ALIKE_BYTE_NS = 80  # of comparing items with others: hashes of long numbers often collide
FORMAT_BYTE_NS = 60
GROUP_PAIR_NS = 3  # a regular expression's names of groups are held against one another
LONG_NUMBER_DIGIT_NS = 300  # for each keyword: numbers have any length
MATCHED_NS_PER_KIB = 100  # of automaton, for each byte of text
FINDING_NS = 4_000
FINDING_STEP_NS = 700  # for each step of the path to it, which it contains
COMPILED_NODE_NS = 10_000  # of compiling a schema in native code
AUTOMATON_BYTE_NS = 50  # of compiling a pattern
COPIED_BYTE_NS = 100  # of the keyword's value and of the instance, which each finding holds

_NUMBER_DIGITS = 18  # longer ones are not machine numbers
_BITS_MAX = 1_100  # of the exponent of any machine number
_PLAIN_BITS = 60  # of one that is written without an exponent
_FEW_ITEMS = 15  # are compared each with each
_NUMBER = re.compile(rb"[,:\[][-\d]")  # beside a root
_FRACTION = re.compile(rb"\.\d")
_UNEVALUATED = frozenset(["unevaluatedProperties", "unevaluatedItems"])
_BY_LENGTH = ("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties")
_BY_SIZE = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")
_SAYING = (*_BY_SIZE, "const", "enum", "not", "pattern", "format")  # findings hold what these say
_FINDING = frozenset([*_BY_LENGTH, *_SAYING, "anyOf", "oneOf", "contains", "uniqueItems"])
# What is rare in a text, and makes checks by these keywords cost more than its length says.
_RARE = {
    "": (rb"\d{%d}" % (_NUMBER_DIGITS + 1),),
    "uniqueItems": (rb"\de", rb"\d{16}"),
    "format": (rb"<",),
    **dict.fromkeys(("const", "enum", *_BY_SIZE), (rb"\de",)),
}
_TYPES: Mapping[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "boolean": (bool,),
    "null": (type(None),),
    "number": (int, float),
    "integer": (int,),
}


@dataclass(frozen=True, slots=True)
class _Own:
    """The cost of one schema by itself, without those inside it."""

    value_ns: int  # for each value
    byte_ns: int  # for each byte of a value
    name_byte_ns: int  # for each byte of the names of an object
    compared_bytes: int  # of lists and objects that a list or an object is compared with
    compared: int  # their number
    findings: int  # keywords that may find something, beside those on names and types
    finding_bytes: int  # of what they say
    has_unevaluated: bool
    item_ns: int = 0  # for each item of a list whose items must differ
    numbers: int = 0  # that one is compared with: at most one in each list or object
    numbers_ns: int = 0  # of comparing a fraction with these
    has_fraction: bool = False  # among these
    has_groups: bool = False  # in texts that must be regular expressions

    def fraction_ns(self, bits: int) -> int:
        """The cost of comparing a number whose exponent has so many bits."""
        return self.numbers_ns + self.numbers * bits * FRACTION_BIT_NS


class WorkBound:
    """Bounds the work of checks against one schema."""

    def __init__(
        self, document: Document, weights: Mapping[str, int], costs: Sequence[_Own] | None = None
    ) -> None:
        """`weights` are the bytes of the automata of its patterns; `costs` of another process."""
        self._document, self._weights = document, weights
        schemas = {id(schema): schema for _, schema in document.schemas()}
        all_costs = costs or _shared(_own(schema, weights) for schema in schemas.values())
        self._own = dict(zip(schemas, all_costs, strict=True))
        self._asks_again = any(own.has_unevaluated for own in self._own.values())
        sums, self._circular = expanded(
            document,
            lambda schema: _each(self._of(schema)),
            lambda schema: _everywhere(self._of(schema)),
            lambda schema: _number_anywhere(self._of(schema)),
            lambda schema: _fraction_anywhere(self._of(schema)),
        )
        self._product = None if self._asks_again or self._circular else sums
        keywords = {keyword for schema in schemas.values() for keyword in ("", *schema)}
        # One after the other is faster than all at once.
        found = {pattern for keyword in keywords for pattern in _RARE.get(keyword, ())}
        self._rare = [re.compile(pattern) for pattern in found]
        self.pattern_bytes = sum(weights.values())
        self.compile_ns = len(self._own) * COMPILED_NODE_NS
        self.compile_ns += self.pattern_bytes * AUTOMATON_BYTE_NS + rewriting_ns(weights)

    def __reduce__(self) -> tuple[object, ...]:
        """Costs are kept by the address of their schema in memory, and are sent in order."""
        return WorkBound, (self._document, self._weights, tuple(self._own.values()))

    def cost_of_check(self, value: JsonValue, most: int) -> int:
        """Of finding out whether `value` satisfies the schema; counting stops beyond `most`."""
        text = to_json(value)
        values = 1 + text.count(b",") + text.count(b"[") + text.count(b"{")  # at most
        if self._product is not None:
            per_value, per_byte, per_number, per_fraction = self._product
            quick = values * per_value + len(text) * per_byte
            quick += (1 + len(_NUMBER.findall(text))) * per_number if per_number else 0
            quick += len(_FRACTION.findall(text)) * per_fraction if per_fraction else 0
            if quick <= most and not any(rare.search(text) for rare in self._rare):
                return quick
        if values * VALUE_NS > most:
            return most + 1
        sizes, total = Sizes(value), values * VALUE_NS
        for schema, instance, _ in self._applied(value, once=True):
            total += PAIR_NS + self._check_ns(schema, instance, sizes)
            if total > most:
                break
        return total

    def cost_of_findings(self, value: JsonValue, most: int) -> int:
        """Of collecting all that is wrong with `value`, which no validator stops before the end."""
        sizes, total = Sizes(value), 0
        for schema, instance, steps in self._applied(value, once=False):
            total += PAIR_NS + self._findings_ns(schema, instance, sizes, steps)
            if total > most:
                break
        return total

    def _of(self, schema: AnySchema) -> _Own:
        return _NOTHING if isinstance(schema, bool) else self._own[id(schema)]

    def _check_ns(self, schema: AnySchema, instance: JsonValue, sizes: Sizes) -> int:
        own, total = self._of(schema), 0
        size = sizes.of(instance)
        match instance:
            case dict():
                names = sum(map(utf8_bytes, instance)) if own.name_byte_ns else 0
                total = names * own.name_byte_ns + len(instance) * NAME_NS
            case list():
                total = len(instance) * NAME_NS + _differing_ns(own, instance, sizes)
            case str() | bool() | None:
                return own.value_ns + size * own.byte_ns + _groups_ns(own, instance)
            case _:
                keywords = len(schema) if isinstance(schema, dict) else 0
                return own.value_ns + _number_ns(own, keywords, instance, size)
        if self._asks_again:
            total += len(instance) * UNEVALUATED_NS
        # They are compared up to where they differ, which may be at a number that takes long.
        longer = max if own.has_fraction or sizes.is_slow(instance) else min
        compared = longer(own.compared_bytes, own.compared * (size + 1)) * COMPARED_BYTE_NS
        return total + own.value_ns + compared + size * own.byte_ns

    def _findings_ns(self, schema: AnySchema, instance: JsonValue, sizes: Sizes, steps: int) -> int:
        if schema is True:
            return 0
        own, count = self._of(schema), 1
        if isinstance(schema, dict):
            count = own.findings + (not _is_of_type(instance, schema.get("type")))
            if isinstance(instance, dict):
                count += _missing(schema, instance) + _closed_to(schema, instance)
        finding_ns = FINDING_NS + steps * FINDING_STEP_NS + sizes.of(instance) * COPIED_BYTE_NS
        return count * finding_ns + own.finding_bytes * COPIED_BYTE_NS

    def _applied(self, value: JsonValue, *, once: bool) -> Iterator[_Applied]:
        """Each schema with each value it may be applied to, as often as it may be.

        With each, about how many steps lead to it.

        It follows every branch of every union to the end, as a validator does that collects errors,
        and never ends where references go round in a circle. What only validates remembers what it
        has found of a value when it comes round: with `once`, that is counted so.
        """
        seen = set[tuple[int, int]]()
        waiting: list[Iterator[Pair]] = [iter([(self._document.root, value)])]
        while waiting:
            found = next(waiting[-1], None)
            if found is None:
                waiting.pop()
                continue
            schema, instance = found
            yield schema, instance, len(waiting)
            if isinstance(schema, bool):
                continue
            # Equal texts and numbers may be one object that is at many places of the value.
            if once and id(schema) in self._circular and isinstance(instance, dict | list):
                if (id(schema), id(instance)) in seen:
                    continue
                seen.add((id(schema), id(instance)))
            # What is evaluated is found by asking all schemas in place once more.
            times = 2 if self._own[id(schema)].has_unevaluated else 1
            waiting.append(_repeated(in_place(self._document, schema), instance, times))
            if not self._document.ignores_siblings(schema):
                waiting.append(inside(schema, instance))


def _differing_ns(own: _Own, items: list[JsonValue], sizes: Sizes) -> int:
    """The cost of checking that items differ: by hashes, or pair by pair."""
    if not own.item_ns:
        return 0
    compared = sizes.alike
    if len(items) <= _FEW_ITEMS:
        compared = len(items) * sizes.is_slow(items)
    return len(items) * own.item_ns + compared * sizes.of(items) * ALIKE_BYTE_NS


def _groups_ns(own: _Own, instance: JsonValue) -> int:
    if not own.has_groups or not isinstance(instance, str):
        return 0
    return instance.count("<") ** 2 * GROUP_PAIR_NS


def _number_ns(own: _Own, keywords: int, number: float, size: int) -> int:
    """Of comparing it: machine integers take no time."""
    long = isinstance(number, int) and size > _NUMBER_DIGITS
    total = size * LONG_NUMBER_DIGIT_NS * (keywords + own.value_ns // KEYWORD_NS) if long else 0
    if own.has_fraction or isinstance(number, float):
        total += own.fraction_ns(exponent(number))
    return total


def _missing(schema: JsonObject, instance: JsonObject) -> int:
    """How many names of `required` and the like an object lacks; each is a finding."""
    lists = [schema.get("required")]
    for keyword in ("dependentRequired", "dependencies"):
        named = schema.get(keyword)
        lists.extend(named.values() if isinstance(named, dict) else ())
    return sum(
        name not in instance
        for names in lists
        if isinstance(names, list)
        for name in names
        if isinstance(name, str)
    )


def _closed_to(schema: JsonObject, instance: JsonObject) -> int:
    """How often the names of an object may be found wrong."""
    named = schema.get("properties")
    known = named.keys() if isinstance(named, dict) else frozenset[str]()
    others = len(_UNEVALUATED & schema.keys())
    if "additionalProperties" in schema and not instance.keys() <= known:
        others += 1
    return others + (len(instance) if "propertyNames" in schema else 0)


def _is_of_type(instance: JsonValue, wanted: JsonValue) -> bool:
    names = wanted if isinstance(wanted, list) else [wanted]
    return wanted is None or any(
        isinstance(instance, _TYPES[name])
        for name in names
        if isinstance(name, str) and name in _TYPES
    )


_NOTHING = _Own(KEYWORD_NS, 0, 0, 0, 0, 1, 0, has_unevaluated=False)


def _own(schema: JsonObject, weights: Mapping[str, int]) -> _Own:
    const = [schema["const"]] if "const" in schema else []
    choices = [*_listed(schema.get("enum")), *const]
    compound: list[JsonValue] = [one for one in choices if isinstance(one, dict | list)]
    required = [schema.get("required"), *_members_of(schema, "dependentRequired", "dependencies")]
    names = sum(len(_listed(one)) for one in required)
    names += len(required) + sum(1 for _ in _members_of(schema, "properties", "dependentSchemas"))
    pattern, named = schema.get("pattern"), schema.get("patternProperties")
    patterns = [*named] if isinstance(named, dict) else []
    value_ns = KEYWORD_NS * (len(schema) + len(choices) + len(patterns)) + NAME_NS * names
    byte_ns = _matching(weights, [pattern] if isinstance(pattern, str) else [])
    byte_ns += FORMAT_BYTE_NS * ("format" in schema) + UNIQUE_BYTE_NS * ("uniqueItems" in schema)
    limits = [*choices, *(schema[keyword] for keyword in _BY_SIZE if keyword in schema)]
    numbers = [limit for limit in limits if isinstance(limit, int | float)]
    bits = sum(min(exponent(number), _BITS_MAX) for number in numbers)
    sizes = Sizes(compound)
    return _Own(
        value_ns=value_ns,
        byte_ns=byte_ns,
        name_byte_ns=_matching(weights, patterns),
        compared_bytes=sizes.of(compound),
        compared=len(compound),
        findings=len(schema.keys() & _FINDING),
        finding_bytes=sum(json_bytes(schema[name]) for name in _SAYING if name in schema),
        has_unevaluated=bool(_UNEVALUATED & schema.keys()),
        item_ns=UNIQUE_ITEM_NS * ("uniqueItems" in schema),
        numbers=len(numbers) + len(compound),
        numbers_ns=(len(numbers) + len(compound)) * FRACTION_NS + bits * FRACTION_BIT_NS,
        has_fraction=sizes.is_slow(compound) or any(isinstance(one, float) for one in numbers),
        has_groups=schema.get("format") == "regex",
    )


def _shared(costs: Iterable[_Own]) -> Iterator[_Own]:
    """One object for equal costs, which are many: it is sent to another process once."""
    known: dict[_Own, _Own] = {}
    return (known.setdefault(cost, cost) for cost in costs)


def _each(own: _Own) -> int:
    """The cost of a value anywhere."""
    return SCHEMA_NS + own.value_ns + own.item_ns


def _number_anywhere(own: _Own) -> int:
    """The cost of a number beside that, of any."""
    return own.fraction_ns(_PLAIN_BITS) if own.has_fraction else 0


def _fraction_anywhere(own: _Own) -> int:
    """The cost of one that is no integer, beside that."""
    limits = 0 if own.has_fraction else own.fraction_ns(_PLAIN_BITS)
    others = _FEW_ITEMS // 2 if own.item_ns else 0
    return limits + others * (FRACTION_NS + _PLAIN_BITS * FRACTION_BIT_NS)


def _everywhere(own: _Own) -> int:
    """The maximum cost of a byte anywhere."""
    return own.byte_ns + own.name_byte_ns + COMPARED_BYTE_NS * own.compared


def _matching(weights: Mapping[str, int], patterns: Iterable[str]) -> int:
    return sum(weights[pattern] for pattern in patterns) * MATCHED_NS_PER_KIB // 1024


def _members_of(schema: JsonObject, *keywords: str) -> Iterator[JsonValue]:
    for keyword in keywords:
        named = schema.get(keyword)
        yield from named.values() if isinstance(named, dict) else ()


def _listed(value: JsonValue) -> list[JsonValue]:
    return value if isinstance(value, list) else []


def _repeated(schemas: Iterable[AnySchema], instance: JsonValue, times: int) -> Iterator[Pair]:
    for schema in schemas:
        for _ in range(times):
            yield schema, instance

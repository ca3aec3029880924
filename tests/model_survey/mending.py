"""Questions whose first answer often fails: rules that no grammar enforces, and that are not shown.

The server is told the wire schema, whose grammar leaves these rules out, and the model is not shown
it either: what is wrong it can learn from the problems of the next prompt alone.
"""

from collections.abc import Iterator
from typing import Any

from answerbus.request import InlineRef
from tests.model_survey.questions import Question


def _object(**properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def _text(**rule: Any) -> dict[str, Any]:
    return {"type": "string", "maxLength": 60, **rule}


def _number(**rule: Any) -> dict[str, Any]:
    return {"type": "number", **rule}


def _list(**rule: Any) -> dict[str, Any]:
    return {"type": "array", "items": _text(), "minItems": 3, "maxItems": 4, **rule}


# Name, schema, and two ways of asking: the first leaves the rule open, the second leads astray.
_RULES: tuple[tuple[str, dict[str, Any], str, str], ...] = (
    (
        "pattern-invoice",
        _object(invoice=_text(pattern=r"^INV-\d{4}$")),
        "Give an invoice number.",
        "Give the invoice number 4711.",
    ),
    (
        "pattern-two-letters",
        _object(country=_text(pattern=r"^\w\w$")),
        "Give the country Germany by its code.",
        "Give the country germany.",
    ),
    (
        "pattern-suffix",
        _object(file=_text(pattern=r"\.py$")),
        "Give the name of a source file.",
        "Give the name of a JavaScript file.",
    ),
    (
        "pattern-version",
        _object(version=_text(pattern=r"^v\d+\.\d+\.\d+$")),
        "Give the next version after 1.2.3.",
        "Give version 2.",
    ),
    (
        "pattern-no-space",
        _object(name=_text(pattern=r"^\S+$")),
        "Give the name of the writer of Faust.",
        "Give the name Ada Lovelace.",
    ),
    (
        "format-email",
        _object(contact=_text(format="email")),
        "Give a contact of the person Ada Lovelace.",
        "Give the contact +49 30 1234.",
    ),
    (
        "format-ipv4",
        _object(host=_text(format="ipv4")),
        "Give the address of the local host.",
        "Give the host example.com.",
    ),
    (
        "format-uri",
        _object(link=_text(format="uri")),
        "Give the link to the page of Python.",
        "Give the link www.python.org.",
    ),
    (
        "number-minimum",
        _object(grams=_number(minimum=1000.5)),
        "How many grams of flour make a loaf of bread?",
        "Give 500 grams.",
    ),
    (
        "number-maximum",
        _object(share=_number(minimum=0, maximum=1)),
        "Which share is a quarter of all?",
        "Give a share of 25 percent.",
    ),
    (
        "number-exclusive",
        _object(length=_number(exclusiveMinimum=0, exclusiveMaximum=10)),
        "How long is a car, in metres?",
        "Give the length 10.",
    ),
    (
        "multiple-of",
        _object(price=_number(multipleOf=5)),
        "Give a price for a book.",
        "Give the price 12.",
    ),
    (
        "unique-items",
        _object(words=_list(uniqueItems=True)),
        "Give three words of greeting.",
        "Give the words hello, hello and hello.",
    ),
    (
        "contains",
        _object(tags=_list(contains={"const": "urgent"})),
        "Give three tags for a letter.",
        "Give the tags red, green and blue.",
    ),
    (
        "not",
        _object(colour=_text(**{"not": {"const": "red"}})),
        "Give the colour of a tomato.",
        "Give the colour red.",
    ),
    (
        "min-properties",
        {"type": "object", "additionalProperties": _text(), "minProperties": 2, "maxProperties": 4},
        "Give names of capitals by their countries.",
        "Give the capital of France by its country.",
    ),
    (
        "property-names",
        {
            "type": "object",
            "additionalProperties": _text(),
            "propertyNames": {"pattern": "^[a-z]+$"},
            "minProperties": 1,
        },
        "Give the capital of one country by its name.",
        "Give the capital of FRANCE by its name.",
    ),
    (
        "if-then",
        {
            **_object(kind={"enum": ["private", "company"]}, tax_number=_text()),
            "if": {"properties": {"kind": {"const": "company"}}},
            "then": {"properties": {"tax_number": {"pattern": "^DE"}}},
        },
        "Describe a company.",
        "Describe a company with the tax number 123.",
    ),
    (
        "dependent-required",
        {
            "type": "object",
            "properties": {"card": _text(), "holder": _text()},
            "required": ["card"],
            "dependentRequired": {"card": ["holder"]},
            "additionalProperties": False,
        },
        "Give the card 4242.",
        "Give the card 4242 and nothing else.",
    ),
    (
        "all-of",
        _object(code={"type": "string", "allOf": [{"pattern": r"\d"}, {"pattern": r"[A-Z]"}]}),
        "Give a code of a door.",
        "Give the code 1234.",
    ),
)


def questions() -> Iterator[Question]:
    """All of them, in an order that never changes."""
    for name, schema, *ways in _RULES:
        for number, instructions in enumerate(ways):
            yield Question(
                id=f"mending-{name}-{number}",
                part="mending",
                group=name,
                asked=InlineRef(name="data", wrapped=False, json_schema=schema),
                instructions=f"{instructions} Be brief.",
            )

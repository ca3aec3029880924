"""Questions whose first answer often fails: by rules that no grammar enforces.

The server is told the wire schema, whose grammar leaves these rules out, and the model does not see
it: what is wrong it can learn from the problems of the next prompt alone.
"""

from collections.abc import Iterator
from typing import Any

from answerbus.request import InlineRef
from tests.model_survey.questions import ATTEMPTS, Part, Question


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


# Name, schema, and two ways of asking that leave the rule open.
_RULES: tuple[tuple[str, dict[str, Any], str, str], ...] = (
    (
        "pattern-invoice",
        _object(invoice=_text(pattern=r"^INV-")),
        "Make up an invoice number.",
        "Which number could an invoice of the year 2025 have?",
    ),
    (
        "pattern-suffix",
        _object(file=_text(pattern=r"\.txt$")),
        "Make up the name of a file.",
        "In which file could the notes of a meeting be?",
    ),
    (
        "pattern-version",
        _object(version=_text(pattern=r"^v\d")),
        "Which version comes after 1.2.3?",
        "Make up the version of a program.",
    ),
    (
        "pattern-one-word",
        _object(name=_text(pattern=r"^\S+$")),
        "Who wrote Faust?",
        "Who discovered radium?",
    ),
    (
        "pattern-digits",
        _object(code=_text(pattern=r"\d{4}")),
        "Make up the code of a door.",
        "Make up the id of an order.",
    ),
    (
        "format-email",
        _object(contact=_text(format="email")),
        "Make up a contact of the person Ada Lovelace.",
        "How can the person Alan Turing be reached?",
    ),
    (
        "minimum-age",
        _object(age=_number(minimum=18.5, maximum=99.5)),
        "How old is a child at school, in years?",
        "How old is a puppy, in years?",
    ),
    (
        "format-uri",
        _object(link=_text(format="uri")),
        "Where is the documentation of Python?",
        "Where is the source of Linux?",
    ),
    (
        "minimum",
        _object(grams=_number(minimum=100.5)),
        "How many grams of salt are in a soup?",
        "How many grams of sugar are in a cup of tea?",
    ),
    (
        "maximum",
        _object(share=_number(minimum=0, maximum=1)),
        "How much of the earth is covered by water?",
        "How much of a human body is water?",
    ),
    (
        "exclusive-maximum",
        _object(length=_number(exclusiveMinimum=0, exclusiveMaximum=10)),
        "How long is a train, in metres?",
        "How long is a car, in centimetres?",
    ),
    (
        "multiple-of",
        _object(price=_number(multipleOf=5)),
        "What does a book cost?",
        "What does a ticket of the train cost?",
    ),
    (
        "unique-items",
        _object(words=_list(uniqueItems=True)),
        "Which words can a greeting begin with?",
        "Which fruits does a child like?",
    ),
    (
        "contains",
        _object(tags=_list(contains={"const": "urgent"})),
        "Tag a letter of the tax office.",
        "Tag a report on an outage.",
    ),
    (
        "not",
        _object(colour=_text(**{"not": {"enum": ["red", "Red"]}})),
        "Which colour has a tomato?",
        "Which colour has the sign of danger?",
    ),
    (
        "if-then",
        {
            **_object(kind={"enum": ["company"]}, tax_number=_text()),
            "if": {"properties": {"kind": {"const": "company"}}},
            "then": {"properties": {"tax_number": {"pattern": "^DE"}}},
        },
        "Make up a company and its tax number.",
        "Describe a bakery.",
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
        "The card is 4242.",
        "The card is 4711, and nothing else is known.",
    ),
    (
        "all-of",
        _object(code={"type": "string", "allOf": [{"pattern": r"\d"}, {"pattern": r"[A-Z]"}]}),
        "Make up a password.",
        "Make up the number plate of a car.",
    ),
    (
        "min-properties",
        {"type": "object", "additionalProperties": _text(), "minProperties": 2, "maxProperties": 4},
        "Give capitals of Europe by their countries.",
        "Give the words for a dog by their languages.",
    ),
    (
        "property-names",
        {
            "type": "object",
            "additionalProperties": _text(),
            "propertyNames": {"pattern": "^[a-z]+$"},
            "minProperties": 1,
        },
        "Give the capital of France by its country.",
        "Give the currency of Japan by its country.",
    ),
)


def questions() -> Iterator[Question]:
    """All of them, in an order that never changes."""
    for name, schema, *ways in _RULES:
        for number, instructions in enumerate(ways):
            yield _question(f"{name}-{number}", "mending", name, schema, instructions)


def again() -> Iterator[Question]:
    """The same as often as `questions` may try, but again each time: nobody says what was wrong."""
    for name, schema, *ways in _RULES:
        for number, instructions in enumerate(ways):
            for turn in range(ATTEMPTS):
                yield _question(f"{name}-{number}-{turn}", "again", name, schema, instructions)


def _question(
    id_: str, part: Part, group: str, schema: dict[str, Any], instructions: str
) -> Question:
    return Question(
        id=f"{part}-{id_}",
        part=part,
        group=group,
        asked=InlineRef(name="data", wrapped=False, json_schema=schema),
        instructions=f"{instructions} Be brief.",
    )

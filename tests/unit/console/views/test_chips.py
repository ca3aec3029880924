"""Chips: each filter once, and an address without it."""

from urllib.parse import parse_qsl, urlsplit

from services.console.views.chips import chips_of, value_words
from services.console.views.filters import DeadLetterFilters, filters_of
from services.operators.dead_letters.groups import Key
from tests.unit.operators.stored_examples import NOON_MS

GIVEN = [
    ("why", "invalid: json_text at /actions/0/args"),
    ("none", "label:tenant"),
    ("profile", "snake_case"),
    ("q", "order & <b>"),
    ("since", "1h"),
    ("until", "2026-11-21T11:59:00Z"),
    ("status", "any"),
]


def given() -> DeadLetterFilters:
    found = filters_of(GIVEN, NOON_MS)
    assert isinstance(found, DeadLetterFilters)
    return found


def test_each_filter_is_a_chip_in_words() -> None:
    assert [(chip.name, chip.value) for chip in chips_of(given(), "/letters")] == [
        ("status", "any"),
        ("why", "/actions/0/args is not JSON"),
        ("label:tenant", "–"),
        ("profile", "snake_case"),
        ("text", "order & <b>"),
        ("since", "1 h ago"),
        ("until", "2026-11-21 11:59:00"),
    ]


def test_a_chip_leads_to_all_the_other_filters_and_to_what_stays() -> None:
    whole = given()
    for chip in chips_of(whole, "/letters", [("by", "why"), ("sort", "newest")]):
        address = urlsplit(chip.href)
        pairs = parse_qsl(address.query)
        rest = filters_of(pairs, NOON_MS, ("by", "sort"))

        assert address.path == "/letters"
        assert pairs[-2:] == [("by", "why"), ("sort", "newest")]
        assert isinstance(rest, DeadLetterFilters)
        assert len(chips_of(rest, "/")) == len(GIVEN) - 1
        assert chip.value not in [other.value for other in chips_of(rest, "/")]


def test_no_filter_is_no_chip() -> None:
    assert chips_of(DeadLetterFilters(), "/letters") == []


def test_own_words_lose_their_underscores_and_names_keep_them() -> None:
    assert value_words(Key("cause"), "unknown_profile") == "unknown profile"
    assert value_words(Key("contract"), "plan_proposal.v1") == "plan_proposal.v1"
    assert value_words(Key("cause"), None) == "–"

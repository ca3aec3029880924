"""What operators did, put together from what is with each dead letter."""

from typing import Any

from services.operators.dead_letters.index import DeadLetterIndex
from services.operators.dead_letters.moment import as_text
from services.operators.dead_letters.operator_actions import GAP_MS, operator_actions
from services.operators.records.summary import summarize
from tests.unit.operators.stored_examples import NOON_MS, stored


def index_of(*deeds: tuple[str, int, str, str]) -> DeadLetterIndex:
    """Of (kind, time after noon, by, reason)."""
    index = DeadLetterIndex()
    for n, (kind, after_ms, by, reason) in enumerate(deeds):
        dead_letter = f"l-{n}"
        index.take(summarize(stored("dead_letter/unknown_profile", dead_letter_id=dead_letter)))
        example = "replayed/unchanged" if kind == "replayed" else "dismissed/dismissed"
        more: dict[str, Any] = {"request_id": f"again-{n}"} if kind == "replayed" else {}
        at = as_text(NOON_MS + after_ms)
        index.take(
            summarize(
                stored(example, dead_letter_id=dead_letter, by=by, reason=reason, at=at, **more)
            )
        )
    return index


def test_dead_letters_of_one_person_and_reason_are_one_action_until_a_while_has_passed() -> None:
    index = index_of(
        ("replayed", 0, "night", "back again"),
        ("replayed", GAP_MS, "night", "back again"),
        ("replayed", GAP_MS + 5, "day", "back again"),
        ("dismissed", GAP_MS + 6, "night", "back again"),
        ("replayed", 3 * GAP_MS, "night", "back again"),
    )
    replay = {"dead_letter_id": "l-0", "round": 1}
    index.take(summarize(stored("result/replayed", request_id="again-0", replay=replay)))

    found = [
        (
            operator_action.kind,
            operator_action.by,
            operator_action.dead_letters,
            dict(operator_action.outcomes),
        )
        for operator_action in operator_actions(index)
    ]

    assert found == [
        ("replayed", "night", 1, {"pending": 1}),
        ("dismissed", "night", 1, {}),
        ("replayed", "day", 1, {"pending": 1}),
        ("replayed", "night", 2, {"pending": 1, "answered": 1}),
    ]


def test_a_dismissal_and_what_undid_it_are_two_actions() -> None:
    index = index_of(("dismissed", 0, "night", "not needed"))
    more: dict[str, Any] = {"dead_letter_id": "l-0", "by": "day", "reason": "it was"}
    index.take(summarize(stored("dismissed/dismissed", offset=9, undone=True, **more)))

    assert [(one.kind, one.by, one.reason) for one in operator_actions(index)] == [
        ("reopened", "day", "it was"),
        ("dismissed", "night", "not needed"),
    ]


def test_who_did_nothing_has_no_actions() -> None:
    assert operator_actions(DeadLetterIndex()) == []

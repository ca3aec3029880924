"""All that the pages know, folded at once."""

import json

import pytest

from answerbus.topics import DEAD_LETTERS, REQUESTS
from services.console.state.console_state import TAIL_RECORDS, ConsoleState
from services.console.state.group_cache import Grouped
from services.console.state.minute import Minute
from services.console.views.filters import DeadLetterFilters
from services.operators.dead_letters.groups import Key
from services.operators.records.stored import RecordPosition, Stored
from tests.unit.operators.stored_examples import NOON_MS, body_of, stored


@pytest.mark.parametrize(
    "example", ["result/dep_bump", "dead_letter/unknown_profile", "attempt/retry", "closed/result"]
)
def test_a_foreign_record_with_the_name_of_our_event_is_none(example: str) -> None:
    value = json.dumps(body_of(example)).encode()
    state = ConsoleState()

    state.take(Stored(REQUESTS, 0, 0, NOON_MS, b"k", value, ()))

    assert [seen.kind for seen in state.tail()] == ["undecodable"]
    assert state.board.window(NOON_MS, 60, 60).total == Minute()


def test_the_state_keeps_a_tail_without_the_ledger_and_finds_operators_deeds() -> None:
    state = ConsoleState()
    state.take(stored("dead_letter/unknown_profile", dead_letter_id="x"))
    for n, workflow_id in ((1, None), (2, "order-4711")):
        one = stored("replayed/unchanged", offset=n, dead_letter_id="x", workflow_id=workflow_id)
        state.take(one)
    state.take(stored("account/busy"))
    for n in range(TAIL_RECORDS):
        state.take(stored("result/dep_bump", NOON_MS + n, offset=n))

    assert len(state.tail()) == TAIL_RECORDS
    assert [seen.at_ms for seen in state.tail()[:2]] == [NOON_MS + 299, NOON_MS + 298]
    assert state.records == TAIL_RECORDS + 4
    assert [dead_letter.id for dead_letter in state.dead_letters] == ["x"]

    assert state.workflows.find("letter\0x") == [RecordPosition(DEAD_LETTERS, 0, 1)]
    assert RecordPosition(DEAD_LETTERS, 0, 2) in state.workflows.find("order-4711")


def test_groups_are_counted_again_when_dead_letters_have_changed_and_only_then() -> None:
    state = ConsoleState()
    state.take(stored("dead_letter/unknown_profile", dead_letter_id="x.dead-letter"))
    keys = [Key("cause")]
    first = state.group_cache.of(DeadLetterFilters(), keys, "letters")

    state.take(stored("result/dep_bump"))
    assert state.group_cache.of(DeadLetterFilters(), keys, "letters") is first

    state.take(stored("dead_letter/unknown_schema", dead_letter_id="y.dead-letter"))
    state.take(stored("dismissed/dismissed", dead_letter_id="x.dead-letter"))
    found = state.group_cache.of(DeadLetterFilters(), keys, "letters")
    assert [(group.values, group.count) for group in found.groups] == [(("unknown_schema",), 1)]
    assert state.group_cache.of(DeadLetterFilters(status=None), keys, "letters").count == 2
    assert ConsoleState().group_cache.of(DeadLetterFilters(), keys, "letters") == Grouped(0, 0, [])

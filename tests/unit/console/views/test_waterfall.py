"""What a workflow's time went to, from records that a lane has written."""

from datetime import timedelta

import pytest

from answerbus.broker_time import moment
from services.console.views.stretches import Stretch, stretches
from services.console.views.waterfall import REQUESTS_MAX, Waterfall, gauges, waterfall
from services.operators.dead_letters.moment import as_text
from services.operators.records.decoded import decoded
from services.operators.timeline.entry import entry_of
from services.operators.timeline.timeline import timeline
from services.worker.core.attempt.reply import TimedOut
from tests.unit.operators.partition import WORKFLOW, Partition
from tests.unit.operators.stored_examples import stored


def drawn(partition: Partition) -> Waterfall:
    found = waterfall(timeline(WORKFLOW, partition.stored), partition.clock)
    assert found
    return found


def tried_twice() -> Partition:
    partition = Partition()
    partition.ask()
    partition.call(TimedOut(9.0))
    partition.clock += timedelta(seconds=60)
    partition.call()
    return partition


def kinds(found: Waterfall) -> list[list[str]]:
    return [[bar.kind for bar in row.bars] for row in found.rows]


def test_a_request_waits_is_called_backs_off_and_is_called_again() -> None:
    found = drawn(tried_twice())
    (row,) = found.rows

    assert kinds(found) == [["waiting", "retry", "backoff", "result"]]
    assert (row.request_id, row.ended, row.calls) == ("r-1", "result", 2)
    assert row.bars[0].x == 0
    assert sum(bar.width for bar in row.bars) == pytest.approx(100, abs=5)
    assert row.bars[2].width > 80
    assert "timed out" in row.bars[1].label
    assert row.bars[2].label.startswith("back-off of 1 min")
    assert [mark.kind for mark in row.marks] == ["result"]


def test_the_axis_begins_at_nought_and_has_few_round_ticks() -> None:
    ticks = drawn(tried_twice()).ticks

    assert ticks[0].label == "0"
    assert 3 <= len(ticks) <= 7
    assert all(0 <= tick.at <= 100 for tick in ticks)


def test_the_budget_is_that_of_the_newest_outcome() -> None:
    found = {gauge.name: gauge for gauge in drawn(tried_twice()).gauges}

    assert found["attempts"].text.startswith("2 of ")
    assert found["attempts"].percent
    assert found["money"].percent is None


def test_the_budget_of_an_open_run_is_that_of_its_newest_step() -> None:
    account = {
        "id": "order-4711",
        "limit": {"attempts": 20},
        "spent": {"attempts": 7, "tokens": 5, "micro_usd": 0},
    }
    own = [entry_of(decoded(stored(one))) for one in ("result/dep_bump", "step/calls")]
    own.append(entry_of(decoded(stored("step/calls", account=account))))

    assert next(gauge.text for gauge in gauges(own)) == "7 of 20"


def test_what_is_not_over_goes_on_until_now() -> None:
    waiting, called, retried = Partition(), Partition(), Partition()
    waiting.ask()
    called.ask()
    called.spend()
    retried.ask()
    retried.call(TimedOut(9.0))
    for partition in (waiting, called, retried):
        partition.clock += timedelta(seconds=600)

    assert kinds(drawn(waiting)) == [["waiting"]]
    assert kinds(drawn(called)) == [["waiting", "running"]]
    assert kinds(drawn(retried)) == [["waiting", "retry", "backoff"]]
    for partition in (waiting, called, retried):
        bar = drawn(partition).rows[0].bars[-1]
        assert bar.x + bar.width == pytest.approx(100, abs=0.01)


def test_a_request_whose_outcome_is_no_longer_kept_is_not_open() -> None:
    """Attempts are kept for 30 days, results for 7."""
    partition = tried_twice()
    kept = [
        one for one in partition.stored if one.topic.name not in ("requests", "results", "ledger")
    ]
    found = waterfall(timeline(WORKFLOW, kept), partition.clock + timedelta(days=8))

    assert found
    assert [(row.ended, row.calls) for row in found.rows] == [("result", 2)]
    assert kinds(found)[0][-1] == "result"


def test_the_place_of_an_invalid_record_is_not_an_open_request() -> None:
    closed = entry_of(decoded(stored("closed/origin")))
    own = timeline(WORKFLOW, tried_twice().stored)
    found = waterfall([*own, closed], moment(0))

    assert found
    assert [row.request_id for row in found.rows] == ["r-1"]


def test_an_invalid_record_that_was_repaired_is_not_open() -> None:
    name = "answerbus.requests.v1-0-0"
    record = stored("replayed/unchanged", dead_letter_id=f"{name}.dead-letter")
    found = waterfall([entry_of(decoded(record))], moment(0))

    assert found
    assert [(row.request_id, row.ended) for row in found.rows] == [(name, "replayed")]


def test_many_requests_are_the_newest_and_the_rest_is_counted() -> None:
    partition = Partition()
    for n in range(REQUESTS_MAX + 5):
        partition.ask(f"r-{n}", budget={"attempts": 100})
        partition.call()
    found = drawn(partition)

    assert (len(found.rows), found.left_out) == (REQUESTS_MAX, 5)
    assert found.rows[-1].request_id == f"r-{REQUESTS_MAX + 4}"


def test_nothing_is_drawn_of_nothing() -> None:
    assert waterfall((), Partition().clock) is None


def test_clocks_that_disagree_make_no_bar_backwards() -> None:
    partition = tried_twice()
    entries = timeline(WORKFLOW, partition.stored)
    found = stretches(entries, partition.clock - timedelta(days=1))

    assert all(isinstance(one, Stretch) and one.end >= one.begin for one in found)


def test_between_the_steps_of_a_run_it_waits_for_its_tools_and_does_not_back_off() -> None:
    began = moment(0)
    own = [
        entry_of(decoded(seen))
        for seen in (
            stored("attempt/retry", outcome="step", attempt=1, started_at=as_text(1_000)),
            stored("attempt/retry", attempt=2, started_at=as_text(600_000), offset=1),
            stored("attempt/retry", attempt=3, started_at=as_text(1_200_000), offset=2),
        )
    ]
    found = stretches(own, began + timedelta(hours=1))

    assert [one.kind for one in found] == ["step", "tools", "retry", "backoff", "retry", "backoff"]
    assert "for its tools" in found[1].label

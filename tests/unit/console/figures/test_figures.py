"""From what was folded to the pictures and tables of pages."""

from typing import Any

import pytest

from services.console.figures.answer_flow import PROBLEMS_SHOWN, answer_flow
from services.console.figures.contract_rows import contract_rows
from services.console.figures.dead_letter_links import dead_letters
from services.console.figures.lane_cells import LaneInputs, lane_cells
from services.console.figures.outcome_charts import deaths_figure, outcomes_figure, spend_figure
from services.console.figures.profile_strips import profile_rows, profile_strips
from services.console.figures.spend_rows import (
    by_contract,
    by_label,
    by_model,
    by_workflow,
)
from services.console.figures.tiles import TileInputs, tiles
from services.console.pages.money import VALUES_SHOWN
from services.console.state.board import LABEL_NAMES_KEPT, NONE, OTHERS, Board, OpenRetry
from services.console.state.health_history import HealthHistory
from services.console.state.lanes import LaneSummary, ReportedLane
from services.console.state.request_times import RequestTimes
from services.console.state.spend_groups import UNLABELLED
from services.console.views.lane_grid import halts, longest_waiting
from services.console.views.status import ProfileStatus, unhealthy_profiles
from services.operators.records.stored import Stored
from services.operators.records.summary import summarize
from tests.unit.operators.stored_examples import MINUTE_MS, NOON_MS, body_of, stored

SPAN = (("from", "a"), ("to", "b"))
DIGEST = body_of("result/dep_bump")["schema"]["digest"]
MODEL = {"provider": "openai", "model": "m", "dialect": "openai"}
USAGE = {"input_tokens": 10, "output_tokens": 5, "micro_usd": 7}


def board_of(*records: Stored) -> Board:
    board = Board()
    for record in records:
        board.take(summarize(record))
    return board


def board_with_history() -> Board:
    """A request that was answered at once, one that was mended, one refused, three dead."""
    died: dict[str, Any] = {
        "prior": [{"attempt": 1, "failure": {"kind": "timed_out", "after_s": 9.0}}]
    }
    return board_of(
        stored("attempt/result", schema_digest=DIGEST, usage=USAGE, attempt=1, duration_ms=900),
        stored("attempt/retry", schema_digest=DIGEST, usage=USAGE, attempt=1),
        stored("attempt/result", schema_digest=DIGEST, usage=USAGE, attempt=2, duration_ms=900),
        stored("result/dep_bump", attempt=1),
        stored("result/dep_bump", attempt=2),
        stored("refusal/by_model"),
        stored("dead_letter/unknown_profile"),
        stored("dead_letter/deadline_passed", **died),
        stored("dead_letter/unknown_profile", NOON_MS - MINUTE_MS),
        stored("replayed/unchanged"),
    )


def test_outcomes_are_columns_by_how_requests_ended() -> None:
    figure = outcomes_figure(board_with_history().window(NOON_MS, 2, 2))

    assert [(entry.series, entry.count) for entry in figure.legend] == [
        ("first", 1), ("mended", 1), ("unvalidated", 0), ("refused", 1), ("dead", 3),
    ]  # fmt: skip
    before, now = figure.chart.columns
    assert [part.series for part in before.parts] == ["dead"]
    assert now.label == "12:00–12:01: first try 1, retried 1, refused 1, dead 2"
    assert now.href.startswith("/?from=")


def test_dead_letters_are_columns_by_why_they_died_that_lead_to_them() -> None:
    figure = deaths_figure(board_with_history().window(NOON_MS, 2, 2), SPAN)

    assert [(entry.name, entry.count) for entry in figure.legend] == [
        ("unknown profile", 2), ("the provider did not answer in time", 1), ("replayed then", 1),
    ]  # fmt: skip
    assert "cause=unknown_profile" in str(figure.legend[0].href)
    assert "failure=timed_out" in str(figure.legend[1].href)
    now = figure.chart.columns[1]
    assert now.mark == 1
    assert now.label.endswith("; 1 replayed")
    assert now.href.startswith("/letters/list?")


def test_a_contract_has_its_endings_its_times_its_cost_and_its_models() -> None:
    board = board_with_history()
    (row,) = contract_rows(board.window(NOON_MS, 2, 1).total, board.schema_labels, SPAN)

    assert (row.label, row.ended, row.spent.calls, row.spent.micro_usd) == (
        "plan_proposal.v1", 6, 3, 21,
    )  # fmt: skip
    assert row.p50_ms
    assert row.models == (body_of("attempt/result")["model"]["model"],)
    assert [part.series for part in row.bar] == ["first", "mended", "refused", "dead"]
    assert row.bar[-1].href
    assert "contract=plan_proposal.v1" in row.bar[-1].href


def test_answers_flow_to_their_endings_and_dead_ones_to_their_problem() -> None:
    found = answer_flow(board_with_history().window(NOON_MS, 2, 1).total, SPAN)
    ends = {node.name: (node.count, node.href) for node in found.endings}

    assert {name: count for name, (count, _) in ends.items()} == {
        "first try": 1, "retried": 1, "refused": 1,
        "dead: timed out": 1, "dead: unknown profile": 2,
    }  # fmt: skip
    assert "failure=timed_out" in str(ends["dead: timed out"][1])
    assert "cause=unknown_profile" in str(ends["dead: unknown profile"][1])


def test_only_the_most_frequent_problems_are_named() -> None:
    kinds = ["malformed", "invalid", "truncated", "refused", "throttled", "unavailable"]
    board = board_of(
        *(
            stored("dead_letter/deadline_passed", prior=[{"attempt": 1, "failure": {"kind": kind}}])
            for kind in kinds
        )
    )
    found = answer_flow(board.window(NOON_MS, 1, 1).total, SPAN)

    assert len(found.endings) == PROBLEMS_SHOWN + 1
    assert found.endings[-1].name == "dead: other problems"
    assert sum(node.count for node in found.endings) == len(kinds)


def test_a_profile_has_its_calls_by_class_and_a_band_where_it_was_away() -> None:
    away = {"kind": "unavailable", "status": None}
    board = board_of(
        stored("attempt/retry", NOON_MS - MINUTE_MS, failure=away),
        stored("attempt/retry", failure={"kind": "throttled", "retry_after_s": None}),
        stored("attempt/retry"),
        stored("attempt/result"),
    )
    health = HealthHistory()
    health.take(NOON_MS - 3 * MINUTE_MS, ["default"])
    (strip,) = profile_strips(board.window(NOON_MS, 4, 4), health)

    assert [column.band for column in strip.calls.chart.columns] == ["away", "", "away", ""]
    assert {entry.series: entry.count for entry in strip.calls.legend} == {
        "answered": 1, "unusable": 1, "throttled": 1, "away": 1,
    }  # fmt: skip
    assert (strip.row.made, strip.row.answered, strip.row.away_now) == (4, 2, False)


def test_a_profile_that_replies_without_an_answer_is_not_away() -> None:
    replied = {"kind": "unavailable", "status": 200}
    board = board_of(*(stored("attempt/retry", offset=n, failure=replied) for n in range(3)))
    (strip,) = profile_strips(board.window(NOON_MS, 1, 1), HealthHistory())

    assert [column.band for column in strip.calls.chart.columns] == [""]
    assert {entry.series: entry.count for entry in strip.calls.legend} == {"unusable": 3}
    assert not strip.row.away_now


def test_a_profile_has_the_statuses_that_it_answered_with_and_its_address() -> None:
    def failed(kind: str, status: int | None = None) -> Stored:
        return stored("attempt/retry", failure={"kind": kind, "status": status})

    board = board_of(
        stored("attempt/result"),
        stored("attempt/dead_letter", failure=None),
        stored("dead_letter/rejected", cause={"kind": "rejected", "status": 400, "code": None}),
        *(failed("unavailable", 503) for _ in range(3)),
        failed("unavailable", 408),
        failed("unavailable", 1_000_000),
        failed("unavailable"),
        failed("timed_out"),
        failed("throttled"),
    )
    servers = {"default": ("https://api.acme.example",)}
    window = board.window(NOON_MS, 1, 1)
    (strip,) = profile_strips(window, HealthHistory(), {}, servers)

    assert strip.servers == servers["default"]
    assert strip.replies[0] == ("503 Service Unavailable", 3)
    assert dict(strip.replies) == {
        "503 Service Unavailable": 3, "400 Bad Request": 1, "408 Request Timeout": 1, "200 OK": 1,
        "throttled (429 or Retry-After)": 1, "no reply": 3,
    }  # fmt: skip


def test_profiles_that_are_away_stand_before_the_busiest() -> None:
    away = {"kind": "unavailable", "status": None}
    called = (("busy", None), ("busy", None), ("quiet", None), ("gone", away))
    board = board_of(
        *(
            stored(
                f"attempt/{'retry' if failure else 'result'}",
                failure=failure,
                model={"profile": name, **MODEL},
            )
            for name, failure in called
        )
    )
    health = HealthHistory()

    rows = profile_rows(board.window(NOON_MS, 4, 4), health)
    assert [(row.name, row.away_now) for row in rows] == [
        ("gone", True), ("busy", False), ("quiet", False),
    ]  # fmt: skip
    health.take(NOON_MS, ["quiet"])
    rows = profile_rows(board.window(NOON_MS, 4, 4), health)
    assert [row.name for row in rows if row.away_now] == ["quiet", "gone"]


def test_profiles_that_workers_call_unhealthy_stand_first_with_why_and_without_a_call() -> None:
    called = stored("attempt/result", model={"profile": "busy", **MODEL})
    window = board_of(called).window(NOON_MS, 4, 4)
    body = unhealthy_profiles(
        [
            ProfileStatus("gone", "no_connection", "10.0.0.9 refuses", NOON_MS - 95_000, 23, None),
            ProfileStatus("new", "a word of a later version"),
            ProfileStatus("busy"),
        ],
        NOON_MS,
    )

    rows = profile_rows(window, HealthHistory(), body)
    assert [(row.name, row.made, row.reported) for row in rows] == [
        ("gone", 0, "no connection since 11:58 UTC; 23 requests waiting"),
        ("new", 0, "unhealthy"),
        ("busy", 1, None),
    ]
    strip, *_ = profile_strips(window, HealthHistory(), body)
    assert strip.heat.is_empty
    assert strip.calls.legend == ()


def test_money_is_counted_by_contract_model_and_label_with_the_cost_of_repairs() -> None:
    board = board_with_history()
    window = board.window(NOON_MS, 1, 1)
    (contract,) = by_contract(window.total, board.schema_labels)
    (model,) = by_model(window.total)

    assert (contract.spent.micro_usd, contract.spent.repairs_micro_usd) == (21, 7)
    assert model.spent.outcomes == {"result": 2, "retry": 1}
    assert [part.label for part in contract.bar] == ["first calls $0.000014", "repairs $0.000007"]
    assert [part.series for part in spend_figure(window).chart.columns[0].parts] == [
        "spend", "repairs",
    ]  # fmt: skip


def test_a_label_has_its_dearest_values_the_others_together_and_what_has_none() -> None:
    def call(n: int, **labels: str) -> Stored:
        usage = {"input_tokens": 1, "output_tokens": 1, "micro_usd": n}
        charged = {"attempts": 1, "tokens": 9, "micro_usd": n + 100 * (n == 40)}
        ids: dict[str, Any] = {"request_id": f"r-{n}", "workflow_id": f"w-{n}", "labels": labels}
        return stored("attempt/result", usage=usage, charged=charged, **ids)

    board = board_of(*(call(n, tenant=f"t-{n}") for n in range(1, 41)), call(50))
    window = board.window(NOON_MS, 1, 1)
    (table,) = by_label(board, window, VALUES_SHOWN)
    shown = [(row.name, row.amounts.micro_usd, row.amounts.charged_micro_usd) for row in table.rows]

    assert table.name == "tenant"
    assert shown[:2] == [("t-40", 40, 140), ("t-39", 39, 39)]
    others = sum(range(1, 41 - VALUES_SHOWN))
    assert shown[VALUES_SHOWN:] == [(OTHERS, others, others), (UNLABELLED, 50, 50)]
    assert [part.label for part in table.rows[0].bar] == ["used $0.000040", "charged only $0.0001"]
    dearest, rest = by_workflow(board, window, 1)
    assert (dearest.name, dearest.amounts.micro_usd, rest.name) == ("w-40", 40, OTHERS)
    assert rest.amounts.calls == 40


def test_no_row_of_a_label_is_below_zero_where_there_are_too_many_labels_to_keep() -> None:
    def call(n: int, micro_usd: int, **labels: str) -> Stored:
        usage = {"input_tokens": 1, "output_tokens": 1, "micro_usd": micro_usd}
        return stored("attempt/result", NOON_MS, n, usage=usage, labels=labels)

    others = (call(n, 5_000, **{f"l-{n}": "x"}) for n in range(1, 2 * LABEL_NAMES_KEPT + 2))
    again = (call(1_000 + n, 20_000, tenant="beta") for n in range(9))
    board = board_of(call(0, 1_000, tenant="acme"), *others, *again)
    tables = by_label(board, board.window(NOON_MS, 1, 1), VALUES_SHOWN)
    (tenants,) = (table.rows for table in tables if table.name == "tenant")

    found = {row.name: row.amounts.calls for row in tenants}
    assert found == {"beta": 9, "acme": 1, UNLABELLED: 2 * LABEL_NAMES_KEPT + 1}


def test_a_model_has_one_name_whether_its_provider_answered_or_not() -> None:
    answered = {"profile": "default", **MODEL, "model": "m-2026-10-01", "asked": "m"}
    board = board_of(
        stored("attempt/result", model=answered, usage=USAGE),
        stored("attempt/retry", model={"profile": "default", **MODEL}),
    )
    (model,) = by_model(board.window(NOON_MS, 1, 1).total)

    assert (model.name, model.spent.calls) == ("m", 2)
    assert model.spent.outcomes == {"result": 1, "retry": 1}


@pytest.mark.parametrize(
    ("lag", "retry_ms", "level", "age"),
    [
        ({0: 0}, {}, 0, "nothing waits"),
        ({0: 5}, {}, 2, "30 s"),
        ({0: 0}, {0: NOON_MS - 400_000}, 4, "6 min 40 s"),
        (None, {}, 0, "nothing waits"),
    ],
)
def test_a_lane_is_as_old_as_its_oldest_request(
    lag: dict[int, int] | None, retry_ms: dict[int, int], level: int, age: str
) -> None:
    times = RequestTimes()
    times.take(10, NOON_MS - 90_000)
    times.take(20, NOON_MS - 30_000)
    lanes = [LaneSummary(0, "w", 0, NOON_MS)]
    retries = {
        at: OpenRetry("default", "throttled", at, since_ms) for at, since_ms in retry_ms.items()
    }
    (cell,) = lane_cells(LaneInputs(lanes, {}, lag, {0: 20}, {0: times}, retries), NOON_MS)

    assert (cell.level, cell.age) == (level, age)


def test_a_lane_has_a_state_of_its_own_and_what_it_waits_for() -> None:
    lanes = [LaneSummary(n, "w-3" if n == 3 else "w-1", 0, NOON_MS) for n in range(5)]
    retries = {n: OpenRetry("vision", "unavailable", n, NOON_MS - 400_000) for n in range(4)}
    reported = {
        0: ReportedLane("w-1", "opening", "a record cannot be read", "vision", "delayed"),
        1: ReportedLane("w-1", "open", "", "vision", "delayed"),
        2: ReportedLane("w-1", "open", "", "helper", "awaiting_tools"),
    }
    inputs = LaneInputs(
        lanes,
        {},
        dict.fromkeys(range(5), 0),
        {},
        {},
        retries,
        reported,
        frozenset({"w-3"}),
        {"vision": "no connection", "helper": "no reply"},
    )
    cells = lane_cells(inputs, NOON_MS)

    assert [(cell.halt, cell.state, cell.waits_for) for cell in cells] == [
        ("stuck", "opening", "profile vision: no connection"),
        ("away", "open", "profile vision: no connection"),
        (None, "open", "tools, child requests or an approval"),
        ("no-worker", "", "another worker"),
        (None, "", ""),
    ]
    assert [cell.short for cell in cells] == ["stuck", "6 min 40 s", "6 min 40 s", "no worker", "–"]
    assert [cell.partition for cell in longest_waiting(cells, 2)] == [0, 3]
    assert cells[0].why == "a record cannot be read"
    assert list(halts(cells)) == ["stuck", "no-worker", "away"]


def test_a_lane_with_a_lag_is_never_idle_even_if_nothing_is_known_of_its_requests() -> None:
    idle, behind = lane_cells(LaneInputs([], {}, {0: 0, 1: 762}, {}, {}, {}), NOON_MS)

    assert (idle.level, idle.age) == (0, "nothing waits")
    assert (behind.level, behind.age) == (1, "age unknown")
    assert longest_waiting([idle, behind], 1) == [behind]
    window = board_with_history().window(NOON_MS, 1, 1)
    for lag, note in (
        (762, "since when is unknown"),
        (0, "nothing waits"),
        (None, "not known yet"),
    ):
        (waiting, *_) = tiles(TileInputs(window, None, [behind], lag, 1, 2, 3, (), SPAN))
        assert waiting.note == note


def test_the_oldest_request_of_a_group_that_never_committed_is_the_first_that_is_kept() -> None:
    times = RequestTimes()
    times.take(1_000, NOON_MS - 90_000)  # those before it were deleted by retention
    (cell,) = lane_cells(LaneInputs([], {}, {0: 5}, {}, {0: times}, {}), NOON_MS)

    assert cell.age == "1 min 30 s"


def test_tiles_say_what_is_out_of_order() -> None:
    board = board_with_history()
    window = board.window(NOON_MS, 1, 1)
    before = board.window(window.first_ms - 1, 1, 1).total
    inputs = TileInputs(window, before, [], 0, 1, 2, 3, [60_000, 90_000], SPAN)
    found = {tile.name: tile for tile in tiles(inputs)}

    assert (found["Died"].value, found["Died"].level, found["Died"].change) == (
        "2",
        "warn",  # too few to be red, as in the status
        "+100 %",
    )
    assert (found["Requests waiting"].level, found["Open dead letters"].level) == ("good", "warn")
    assert found["First try"].value == "20.0 %"
    first = tiles(inputs)[0]
    assert (first.name, first.value, first.note, first.href) == (
        "Awaiting approval", "2", "the oldest for 1 min 30 s", "/runs",
    )  # fmt: skip
    assert all(tile.note for tile in found.values())


def test_what_has_no_contract_is_listed_by_that() -> None:
    assert dead_letters((), contract=NONE) == "/letters/list?none=contract&status=any"

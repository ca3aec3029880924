"""The arithmetic of `make group-limits`: sliding minutes, and which of them lanes moved in."""

from tests.autoscaling.rates import SETTLE_S, figures, is_of_a_move, window_counts


def test_each_call_begins_a_minute() -> None:
    assert window_counts([0.0, 30.0, 59.5, 60.0, 90.0]) == [
        (60.0, 3),
        (90.0, 3),
        (119.5, 3),
        (120.0, 2),
        (150.0, 1),
    ]


def test_a_minute_is_of_a_move_until_the_last_worker_has_settled() -> None:
    move = (100.0, 110.0)

    assert [is_of_a_move(end, [move]) for end in (99.0, 100.0, 170.0 + SETTLE_S)] == [
        False,
        True,
        True,
    ]
    assert not is_of_a_move(171.0 + SETTLE_S, [move])


def test_minutes_that_are_not_over_count_for_nothing() -> None:
    moves = [(0.0, 5.0), (200.0, 205.0)]
    starts = [float(second) for second in range(300)]

    assert figures(starts, moves, ended_at=300.0) == {
        "calls": 300,
        "most in a minute": 60,
        "least in a minute": 60,
        "most while lanes move": 60,
    }

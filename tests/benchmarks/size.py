"""How large a run is: `small` shows that all works, `full` is what documentation quotes."""

from dataclasses import dataclass

from tests.benchmarks.long_past import DEAD_LETTER_EVERY


@dataclass(frozen=True, slots=True)
class Size:
    """Durations in seconds, the rest in requests or records."""

    name: str
    warmup_s: float
    window_s: float
    kill_requests: int
    open_loop_s: float
    outage_s: float
    closed_ids: int
    day_ids: int  # closed in the last 24 h
    accounts: int
    held: int
    backlog: int
    backlog_window_s: float
    growth_window_s: float
    scaling_window_s: float
    attempts: int
    schemas: int
    waiting_runs: int

    @property
    def dead_letters(self) -> int:
        return self.attempts // DEAD_LETTER_EVERY


SIZES = {
    "small": Size(
        "small",
        5.0,
        10.0,
        600,
        10.0,
        20.0,
        10_000,
        600_000,
        10_000,
        500,
        20_000,
        10.0,
        5.0,
        8.0,
        100_000,
        60,
        500,
    ),
    "full": Size(
        "full",
        10.0,
        30.0,
        2_000,
        30.0,
        120.0,
        100_000,
        9_000_000,
        100_000,
        5_000,
        100_000,
        25.0,
        15.0,
        20.0,
        1_000_000,
        600,
        5_000,
    ),
}

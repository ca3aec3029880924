"""The diagram of a lane's life is the one of its table."""

from pathlib import Path

from infra.lane_page import PAGE, page
from services.worker.lane.state.machine import State

ROOT = Path(__file__).parents[2]


def test_the_page_shows_the_table_as_it_is() -> None:
    text = (ROOT / PAGE).read_text(encoding="utf-8")

    assert text == page(text), "python -m infra.lane_page writes it again"
    assert all(f"| `{state.name}` |" in text for state in State)
    assert "    OPEN --> SUSPENDED: revoked\n" in text

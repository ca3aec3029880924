"""`answerbus top` and the console say the same of one bus: both ask `status_now`."""

from html import unescape
from io import StringIO

import pytest
from rich.console import Console
from rich.live import Live

from services.command_line import screen
from services.commands.terminal.top_board import TopFacts, as_data, board_of
from services.commands.top import facts_of
from services.console.state.board import Board
from services.console.state.schema_labels import SchemaLabels
from services.console.tasks.polling import WorkerStatus
from services.console.views.lane_grid import LaneCell
from services.operators.records.stored import Stored
from tests.unit.console.context import OPERATOR, site
from tests.unit.operators.stored_examples import NOON_MS, stored

DEAD = [
    stored("dead_letter/unknown_profile", NOON_MS, n, dead_letter_id=f"l-{n}") for n in range(6)
]
AWAY = WorkerStatus(
    "http://w:1", ready=False, body={"profiles": {"claude": {"problem": "no_connection"}}}
)


@pytest.mark.parametrize(
    ("records", "workers", "level"),
    [
        ((), [], "green"),
        (DEAD, [], "amber"),
        (DEAD, [AWAY], "red"),
        ((), [AWAY, WorkerStatus("http://w:2", ready=False, body=None, error="x")], "red"),
    ],
)
async def test_top_and_the_console_say_the_same(
    records: list[Stored], workers: list[WorkerStatus], level: str
) -> None:
    async with site(*records) as here:
        here.context.poller.results.workers = workers
        page = unescape(await (await here.get("/", await here.log_in(OPERATOR))).text())
        facts = facts_of(here.context.feed, here.context.poller, NOON_MS)

    terminal = Console(width=300, record=True, file=StringIO())
    terminal.print(board_of(facts))
    shown = terminal.export_text()
    assert facts.status.level == as_data(facts)["status"] == level
    assert f'class="status {level}"' in page
    for finding in facts.status.findings:
        assert f"{finding.headline}" in page
        assert f"{finding.rest}." in page
        assert f"● {finding.text}" in shown


def test_a_narrow_terminal_has_all_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {
        "COLUMNS": "60",
        "LINES": "40",
        "FORCE_COLOR": "1",
        "TERM": "xterm",
    }.items():
        monkeypatch.setenv(name, value)
    terminal, file = screen(), StringIO()
    terminal.file = file
    lanes = [LaneCell(n, None, 0, 0, None, 0, None) for n in range(24)]
    facts = TopFacts(Board().window(NOON_MS, 15, 15), SchemaLabels(), lanes, 0)
    with Live(board_of(facts), console=terminal, screen=True, auto_refresh=False) as live:
        live.refresh()

    for word in ("tokens 0", " 0:", " 23:"):
        assert word in file.getvalue(), word

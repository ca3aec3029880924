"""`answerbus spend`: its tables for people, and the same figures for programs as the console's."""

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from io import StringIO
from typing import Any

import pytest
from rich.console import Console
from typer.testing import CliRunner

from services import cli
from services.commands import spend
from services.commands.spend import tables
from services.console.figures.spend_report import LINES_MAX, spend_report
from services.console.state.board import LOST as LOST_WITH_ITS_WORKER
from services.console.state.board import Board
from services.console.state.spend_groups import SpendGroups
from services.console.state.spend_table import Amounts
from services.console.views.units import by_caches
from services.operators.records.stored import Stored
from services.operators.records.summary import summarize
from tests.cost.budget import ANYBODY, MARGIN, spent
from tests.unit.console.context import VIEWER, site
from tests.unit.operators.stored_examples import NOON_MS, stored

NAMES, MINUTES = 1_900, 10
LOST = {"attempts": 1, "tokens": 9_000, "micro_usd": 800_000}


def calls() -> list[Stored]:
    """One call each of twelve workflows, which cost more and more; one without usage."""
    found = []
    for n in range(12):
        usage = {"input_tokens": 100, "output_tokens": 20, "micro_usd": 10_000 * (n + 1)}
        charged = {"attempts": 1, "tokens": 120, "micro_usd": 10_000 * (n + 1)}
        ids: dict[str, Any] = {"request_id": f"r-{n}", "workflow_id": f"order-{n}"}
        labels = {"tenant": "acme" if n % 2 else "beta"}
        found.append(
            stored("attempt/result", NOON_MS, n, usage=usage, charged=charged, labels=labels, **ids)
        )
    lost = stored("attempt/unknown", NOON_MS, 12, workflow_id="order-0", charged=LOST)
    return [*found, lost]


def test_the_dearest_workflow_is_the_first_line_and_each_table_adds_up() -> None:
    board = Board()
    for one in calls():
        board.take(summarize(one))
    found = spend_report(board, board.window(NOON_MS, 1, 1), 3)
    total = found.total

    assert (total.calls, total.used_micro_usd, total.charged_micro_usd) == (
        13, 780_000, 1_580_000,
    )  # fmt: skip
    assert [line.name for line in found.workflows] == [
        "order-0", "order-11", "order-10", "(others)",
    ]  # fmt: skip
    assert [(line.name, line.charged_micro_usd) for line in found.labels["tenant"]] == [
        ("acme", 420_000), ("beta", 360_000), (LOST_WITH_ITS_WORKER, 800_000),
    ]  # fmt: skip
    lists: list[Any] = [found.contracts, found.models, found.workflows]
    for lines in [*lists, *found.labels.values()]:
        for unit in ("calls", "tokens", "used_micro_usd", "charged_micro_usd"):
            assert sum(getattr(line, unit) for line in lines) == getattr(total, unit)
    console = Console(width=80, record=True, file=StringIO())
    for table in tables(found):
        console.print(table)
    text = console.export_text()
    for word in ("workflow", "order-0", "tenant", "acme", LOST_WITH_ITS_WORKER, "$0.78", "$1.58"):
        assert word in text


def test_a_day_of_as_many_names_as_are_kept_is_reported_without_holding_the_loop() -> None:
    board, minute, one = Board(), NOON_MS // 60_000, Amounts(1, 900, 1_000, 1_200)
    for n in range(NAMES * MINUTES):
        name, at = n % NAMES, minute - MINUTES + 1 + n // NAMES
        board.workflows.take(f"order-{name}", one, at)
        board.labels.take(("tenant", f"t-{name}"), one, at)
        board.label_names.take("tenant", one, at)
    window = board.window(NOON_MS, 24 * 60, 1)

    found = spend_report(board, window, LINES_MAX)
    assert found.workflows[0].calls == found.labels["tenant"][0].calls == MINUTES
    assert spent(lambda: spend_report(board, window, LINES_MAX)).is_below(ANYBODY.loop_s * MARGIN)


def test_the_overview_reads_the_time_that_it_shows_and_a_day_before_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    read: list[datetime] = []

    class Empty:
        async def records(self) -> AsyncIterator[Stored]:
            nothing: Sequence[Stored] = ()
            for one in nothing:
                yield one

    @asynccontextmanager
    async def reading(_bus: object, _topics: object, *, since: datetime) -> AsyncIterator[Empty]:
        read.append(since)
        yield Empty()

    monkeypatch.setattr(spend, "reading", reading)
    for name in ("24h", "1h"):
        done = CliRunner().invoke(cli.application(), ["spend", "--range", name, "--json"])
        begins = datetime.fromisoformat(json.loads(done.stdout)["begins"])

        assert read.pop() == begins - timedelta(days=1)


def test_groups_since_a_time_before_all_times_are_since_the_beginning(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def read(_bus: object, groups: SpendGroups) -> bool:
        for one in calls():
            groups.take(summarize(one))
        return False

    monkeypatch.setattr(spend, "read_spend", read)
    arguments = ["spend", "--by", "profile", "--since", "999999d", "--json"]
    done = CliRunner().invoke(cli.application(), arguments)

    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["begins"] == "1970-01-01T00:00:00.000Z"


@pytest.mark.parametrize("name", ["", "/"])
def test_a_file_without_a_name_is_a_mistake(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def read(_bus: object, _groups: SpendGroups) -> bool:
        return False

    monkeypatch.setattr(spend, "read_spend", read)
    done = CliRunner().invoke(cli.application(), ["spend", "--by", "profile", "--csv", name])

    assert done.exit_code == 2, done.output
    assert "give the name of a file" in done.stderr


def test_what_caches_saved_stands_beside_the_total() -> None:
    board = Board()
    for n, saved in enumerate((30_000, -10_000)):
        usage = {"input_tokens": 100, "output_tokens": 20, "micro_usd": 5, "cached_tokens": 90}
        usage["cache_saved_micro_usd"] = saved
        board.take(
            summarize(stored("attempt/result", NOON_MS, n, usage=usage, request_id=f"r-{n}"))
        )
    found = spend_report(board, board.window(NOON_MS, 1, 1), 3)
    console = Console(width=80, record=True, file=StringIO())
    for table in tables(found):
        console.print(table)

    assert found.cache_saved_micro_usd == 20_000
    assert "caches saved $0.02" in console.export_text()
    assert by_caches(-1_000) == "caches cost $0.0010 more than they saved"
    assert by_caches(0) == ""


def test_what_tools_cost_is_used_and_charged() -> None:
    board = Board()
    usage, charged = {"micro_usd": 5}, {"attempts": 1, "tokens": 0, "micro_usd": 5}
    more: dict[str, Any] = {"usage": usage, "charged": charged, "tools_micro_usd": 700}
    board.take(summarize(stored("attempt/result", NOON_MS, 0, **more)))
    total = spend_report(board, board.window(NOON_MS, 1, 1), 3).total

    assert (total.used_micro_usd, total.charged_micro_usd) == (705, 705)


@pytest.mark.parametrize("path", ["/money", "/money/workflows", "/money?range=24h"])
async def test_the_dearest_workflow_is_on_the_page_and_leads_to_it(path: str) -> None:
    async with site(*calls()) as here:
        text = await (await here.get(path, await here.log_in(VIEWER))).text()

    assert text.index("/workflow?id=order-0") < text.index("/workflow?id=order-11")


async def test_programs_have_the_same_figures_if_they_are_logged_in() -> None:
    async with site(*calls()) as here:
        answer = await here.get("/money.json?range=15m", await here.log_in(VIEWER))
        found = json.loads(await answer.text())
        stranger = await here.get("/money.json")
        wrong = await here.get("/money.json?range=7d", await here.log_in(VIEWER))

    assert (found["total"]["calls"], found["workflows"][0]["name"]) == (13, "order-0")
    assert [line["name"] for line in found["labels"]["tenant"]] == [
        "acme", "beta", LOST_WITH_ITS_WORKER,
    ]  # fmt: skip
    assert (stranger.status, wrong.status) == (303, 400)

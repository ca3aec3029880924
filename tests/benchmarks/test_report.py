import json
from collections import Counter
from pathlib import Path

from tests.benchmarks import stacks
from tests.benchmarks.figures import Bar, Figure, as_line, read
from tests.benchmarks.report import DOCS, LINES, page
from tests.benchmarks.tables import markdown

RUN = {"at": "2026-01-01T00:00:00+00:00", "size": "small", "seed": 1}
VERSIONS = {"python": "3.14.6"}
SOME = Figure("kills", "two kill -9", "product", "lost", 0, "", Bar("=", 0))


def test_the_page_is_what_the_lines_say() -> None:
    text, charts = page((DOCS / LINES).read_text(encoding="utf-8").splitlines())

    assert (DOCS / "benchmarks.md").read_text(encoding="utf-8") == text
    assert {path.name for path in (DOCS / LINES).parent.glob("*.svg")} == charts.keys()


def test_of_two_lines_for_one_figure_the_later_one_is_kept() -> None:
    worse = Figure("kills", "two kill -9", "product", "lost", 3, "", Bar("=", 0))

    found = read([as_line(worse, RUN), as_line(SOME, RUN)])

    assert found == [(SOME, RUN)]
    assert json.loads(as_line(SOME, RUN))["bar"] == {"relation": "=", "value": 0}


def test_what_another_machine_measured_is_a_case_of_its_own() -> None:
    def line(value: float, machine: str) -> str:
        figure = Figure("ledger", "small", "product", "reading", value, "s")
        return as_line(figure, {**RUN, "machine": machine, "commit": "a", "versions": VERSIONS})

    usual = [line(1, "x86_64, 2 cores"), line(2, "x86_64, 2 cores")]
    other = [line(3, "x86_64, 16 cores")]

    shown = page([*other, *usual, line(4, "x86_64, 2 cores").replace("small", "large")])[0]
    assert "| small | product | 2 s |" in shown
    assert "| small (16 cores, python 3.14.6) | product | 3 s |" in shown


def test_a_table_has_the_rows_of_a_case_together() -> None:
    rows = [("one", "product"), ("two", "product"), ("one", "baseline")]

    table = markdown(Figure("m", case, who, "lost", 1, "") for case, who in rows)

    assert [line.split(" | ")[:2] for line in table.splitlines()[2:]] == [
        ["| one", "product"],
        ["| one", "baseline"],
        ["| two", "product"],
    ]


def test_a_table_says_which_bars_are_missed() -> None:
    figures = [
        SOME,
        Figure("kills", "two kill -9", "baseline", "lost", 1234, ""),
        Figure("kills", "two kill -9", "product", "cut", 1.23456, "s", Bar("<=", 1)),
    ]

    assert markdown(figures).splitlines()[2:] == [
        "| two kill -9 | product | 0 (meets = 0) | 1.23 s (misses <= 1) |",
        "| two kill -9 | baseline | 1,234 |  |",
    ]


def test_samples_are_grouped_by_library_and_by_purpose() -> None:
    root = Path(__file__).parents[2]
    loop = "/usr/lib/python3.11/asyncio/events.py:_run"
    handle = f"{root}/services/worker/handle.py:attempt"
    client = f"{root}/.venv/lib/python3.11/site-packages/aiohttp/client.py:_request"
    adapter = f"{root}/services/worker/adapters/providers/exchange.py:_send"
    seen = Counter({(client, adapter, handle, loop): 2, (adapter, handle, loop): 1, (handle,): 1})

    assert stacks.shares(seen, stacks.running) == [("aiohttp", 0.5), ("ours", 0.5)]
    assert stacks.shares(seen, stacks.part) == [
        ("call: connections", 0.5),
        ("call: request and transport", 0.25),
        ("turns and tasks", 0.25),
    ]
    assert stacks.shares(seen, stacks.cause) == [
        ("exchange.py:_send", 0.75),
        ("handle.py:attempt", 0.25),
    ]

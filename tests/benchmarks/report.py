"""Writes docs/benchmarks.md and its charts from JSON lines, so that no figure is typed by hand.

    python -m tests.benchmarks.report [LINES ...]

Lines given are added to docs/benchmarks/figures.jsonl; of each figure the latest is shown.
"""

import json
import re
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.benchmarks.charts import chart
from tests.benchmarks.figures import Figure, read
from tests.benchmarks.tables import markdown, written

DOCS = Path(__file__).parents[2] / "docs"
METHOD = Path(__file__).with_name("method.md")
LINES = "benchmarks/figures.jsonl"
SOAK = DOCS / "soak/soak.json"
AXES = {
    "in flight over time": ("seconds since the first call", "calls in flight", 0.0),
    "added by percentile": ("percentile", "added latency (ms)", 500.0),
}
_PLACE = re.compile(r"\{\{(?:(chart|shares):)?([a-z]+)(?::([^}]+))?\}\}")


def page(lines: Sequence[str]) -> tuple[str, dict[str, str]]:
    """The page, and charts by their file names."""
    entries = read(lines)
    usual = Counter(_set_up(run) for _, run in entries).most_common(1)
    figures = [
        figure if _set_up(run) == usual[0][0] else _elsewhere(figure, run)
        for figure, run in entries
    ]
    charts: dict[str, str] = {}

    def fill(place: "re.Match[str]") -> str:
        kind, name, curve = place.groups()
        chosen = [figure for figure in figures if figure.measurement == name]
        if kind == "chart":
            return _charts(name, curve, chosen, charts)
        if kind == "shares":
            return _shares(chosen)
        if name == "soak":
            return _soak()
        if name == "runs":
            return _runs([run for _, run in entries])
        return markdown(chosen) if chosen else "*Not measured yet.*"

    return _PLACE.sub(fill, METHOD.read_text(encoding="utf-8")), charts


def _elsewhere(figure: Figure, run: Mapping[str, Any]) -> Figure:
    """One of another machine or Python than most: its case names that, as a case of its own."""
    cores = str(run["machine"]).partition(", ")[2]
    return replace(figure, case=f"{figure.case} ({cores}, python {run['versions']['python']})")


def _set_up(run: Mapping[str, Any]) -> str:
    return f"{run['machine']}, python {run['versions']['python']}"


def _charts(name: str, curve: str, figures: Sequence[Figure], charts: dict[str, str]) -> str:
    """One chart for each case, and the links to them."""
    x_title, y_title, y_max = AXES[curve]
    by_case: dict[str, dict[str, Sequence[tuple[float, float]]]] = {}
    for figure in figures:
        if figure.name == curve:
            by_case.setdefault(figure.case, {})[figure.who] = figure.points
    links = []
    for case, curves in by_case.items():
        file = re.sub(r"[^a-z0-9]+", "-", f"{name} {case}".lower()).strip("-") + ".svg"
        charts[file] = chart(curves, x_title, y_title, y_max)
        links.append(f"**{case}**\n\n![{case}: {curve}](benchmarks/{file})")
    return "\n\n".join(links)


def _shares(figures: Sequence[Figure]) -> str:
    tables = []
    for case in dict.fromkeys(figure.case for figure in figures):
        rows = [
            f"| {figure.name} | {written(figure.value)} % |"
            for figure in figures
            if figure.case == case and figure.value is not None
        ]
        tables.append("\n".join([f"| {case} | share |", "| --- | ---: |", *rows]))
    return "\n\n".join(tables) or "*Not measured yet.*"


def _soak() -> str:
    """What the last long run said, which has a file of its own."""
    if not SOAK.exists():
        return "*Not measured yet.*"
    found = json.loads(SOAK.read_text(encoding="utf-8"))
    rows = [f"| {name} | {100 * share:+.1f} % |" for name, share in found["grown"].items()]
    table = ["| from the middle third to the last | |", "| --- | ---: |", *rows]
    return (
        "\n".join(table) + f"\n\n`{found['command']}`, {found['answered']:,} answers of the "
        f"provider, on {found['about']}.\n\n![a long run](soak/soak.svg)"
    )


def _runs(runs: Sequence[Mapping[str, Any]]) -> str:
    """Where the figures come from."""
    if not runs:
        return ""
    last = runs[-1]
    sizes = ", ".join(sorted({str(run["size"]) for run in runs}))
    seeds = ", ".join(sorted({str(run["seed"]) for run in runs}))
    on, *others = [made for made, _ in Counter(map(_set_up, runs)).most_common()]
    elsewhere = " (cases that name another machine: on that)" if others else ""
    made = ", ".join(
        f"{name} {number}" for name, number in last["versions"].items() if name != "python"
    )
    dates = sorted(str(run["at"])[:10] for run in runs)
    when = dates[0] if dates[0] == dates[-1] else f"{dates[0]} to {dates[-1]}"
    commits = ", ".join(dict.fromkeys(str(run["commit"]) for run in runs))
    return f"Measured {when} on {on}{elsewhere}; size {sizes}, seed {seeds}, at {commits}; {made}."


def main(added: Sequence[str]) -> None:
    """Add lines, and write everything again."""
    kept = DOCS / LINES
    kept.parent.mkdir(exist_ok=True)
    lines = kept.read_text().splitlines() if kept.exists() else []
    for name in added:
        lines += Path(name).read_text().splitlines()
    text, charts = page(lines)
    kept.write_text("".join(f"{line}\n" for line in lines))
    (DOCS / "benchmarks.md").write_text(text, encoding="utf-8")
    for old in kept.parent.glob("*.svg"):
        old.unlink()
    for file, svg in charts.items():
        (kept.parent / file).write_text(svg, encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])

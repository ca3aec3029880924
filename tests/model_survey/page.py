"""docs/model-survey.md, written from the rows so that no figure is typed by hand."""

import re
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from infra.local_model.models import MODELS
from services.operators.comparisons.intervals import wilson
from tests.model_survey.agent_trials import CASES, TRIALS
from tests.model_survey.agents import AgentRow
from tests.model_survey.counts import (
    Counts,
    by_group,
    counted,
    valid_after,
    valid_within,
)
from tests.model_survey.questions import Part
from tests.model_survey.rows import Row
from tests.model_survey.sample import SCHEMAS

DOC = Path(__file__).parents[2] / "docs" / "model-survey.md"
METHOD = Path(__file__).with_name("method.md")
AGENTS_HEADING = "## Agents\n"
_PLACE = re.compile(r"\{\{(\w+)\}\}")
_HEADING = (
    *("", "asked", "attempts", "ended", "fit the wire", "valid", "stricter", "looser", "cut"),
    *("published", "of these valid", "refusals", "dead letters"),
)


def write(rows: Sequence[Row], questions: int, agents: Sequence[AgentRow]) -> None:
    """The page of today; `questions` is how many there would be.

    What there are no rows of here stays as it was written elsewhere.
    """
    today = datetime.fromtimestamp(time.time(), UTC).date().isoformat()
    asked, heading, tried = DOC.read_text(encoding="utf-8").partition(AGENTS_HEADING)
    asked = page(rows, questions, today) if rows else asked
    part = agents_part(agents, today) if agents else heading + tried
    DOC.write_text(f"{asked.rstrip()}\n\n{part}".rstrip() + "\n", "utf-8")


def page(rows: Sequence[Row], questions: int, today: str) -> str:
    """The text of the page, up to the agents."""
    parts = {part: [row for row in rows if row.part == part] for part in _PARTS}
    pieces = {
        "run": _run(rows, questions, today),
        "schemas": str(SCHEMAS),
        "verdict": summary(rows),
        "contracts": _table("contract", parts["contracts"]),
        "inline": _table("inline schema", parts["inline"]),
        "mending": _mending(parts["mending"], parts["again"]),
    }
    text = METHOD.read_text(encoding="utf-8").partition(AGENTS_HEADING)[0]
    return _PLACE.sub(lambda place: pieces[place[1]], text)


def agents_part(rows: Sequence[AgentRow], today: str) -> str:
    trials = f"{len(rows)} of {TRIALS * len(CASES)} trials"
    pieces = {"tried": f"{today}, {MODELS['small'].title}, {trials}", "agents": _agents(rows)}
    _, heading, text = METHOD.read_text(encoding="utf-8").partition(AGENTS_HEADING)
    return heading + _PLACE.sub(lambda place: pieces[place[1]], text)


def summary(rows: Sequence[Row]) -> str:
    """The verdict in words; raw answers are those to questions that are not made to fail."""
    whole = counted("all", rows)
    plain = [row for row in rows if row.part in _PLAIN]
    raw = counted("plain", plain)
    reported = counted("told", [row for row in plain if row.is_enforced])
    return (
        f"{whole.published_valid} of {whole.published} published answers are valid, and the worker "
        f"accepted {whole.looser} that `jsonschema` refuses. Of the raw answers to contracts and "
        f"inline schemas, {raw.ended} ended by themselves: {raw.fit_wire} of these fit the wire, "
        f"{raw.raw_valid} are valid under the schema that was asked for. Where the server is told "
        "the whole schema, so that the result has no notes, "
        f"{reported.raw_valid} of {reported.ended} are."
    )


def all_published_valid(rows: Sequence[Row]) -> bool:
    """Whether nothing was published that jsonschema refuses."""
    return all(row.published_valid is not False for row in rows)


_PLAIN: tuple[Part, ...] = ("contracts", "inline")
_PARTS: tuple[Part, ...] = (*_PLAIN, "mending", "again")


def _run(rows: Sequence[Row], questions: int, today: str) -> str:
    missing = questions - len(rows)
    rest = f" {missing} more were not asked in the time there was." if missing else ""
    return f"{today}, {MODELS['small'].title}, {len(rows)} requests.{rest}"


def _agents(rows: Sequence[AgentRow]) -> str:
    """Each case with how many trials came to what was wanted."""
    lines = [
        "| case | worked if | tried | worked | 95 % interval | steps | calls | repeats | failed |",
        "| --- | --- | ---: | ---: | --- | ---: | ---: | ---: | ---: |",
    ]
    for case, wanted in CASES.items():
        found = [row for row in rows if row.case == case]
        if not found:
            continue
        worked = sum(row.worked for row in found)
        low, high = wilson(worked, len(found))
        cells = (case, wanted, len(found), worked, f"{low:.0%} to {high:.0%}", *_sums(found))
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    return "\n".join(lines)


def _sums(rows: Sequence[AgentRow]) -> tuple[int, ...]:
    return tuple(
        sum(getattr(row, name) for row in rows) for name in ("steps", "made", "repeats", "failed")
    )


def _table(of: str, rows: Sequence[Row]) -> str:
    if not rows:
        return f"*No {of} was asked yet.*"
    lines = [(of, *_HEADING[1:]), ["---", *["---:"] * (len(_HEADING) - 1)]]
    lines += [_cells(counts) for counts in (*by_group(rows), counted("**all**", rows))]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


def _cells(of: Counts) -> tuple[str, ...]:
    numbers = (
        *(of.asked, of.attempts, of.ended, of.fit_wire, of.raw_valid, of.stricter, of.looser),
        *(of.cut, of.published, of.published_valid, of.refusals, of.dead_letters),
    )
    return (of.group, *map(str, numbers))


def _mending(rows: Sequence[Row], again: Sequence[Row]) -> str:
    if not rows:
        return "*Not asked yet.*"
    reported, anew = valid_after(rows), valid_within(again)
    lines = [
        f"| valid after | of {len(rows)}, told what was wrong | 95 % interval | asked anew |",
        "| --- | ---: | --- | ---: |",
    ]
    for attempts, (valid, control) in enumerate(zip(reported, anew, strict=True), start=1):
        low, high = wilson(valid, len(rows))
        plural = "s" if attempts > 1 else ""
        lines.append(
            f"| {attempts} attempt{plural} | {valid} | {low:.0%} to {high:.0%} | {control} |"
        )
    message = (
        f"Of those that failed at first, {_later(reported, len(rows))} were valid later when told "
        f"what was wrong, and {_later(anew, len(rows))} when asked anew."
    )
    return "\n".join([*lines, "", message, "", _table("rule", rows)])


def _later(valid: Sequence[int], asked: int) -> str:
    """How many of the failed were valid later, with the 95 % interval of the share."""
    mended, failed = valid[-1] - valid[0], asked - valid[0]
    low, high = wilson(mended, failed) if failed else (0.0, 1.0)
    return f"{mended} of {failed} ({low:.0%} to {high:.0%})"

"""The forecast and the outcome of a replay, as a table and as JSON data."""

from collections.abc import Mapping, Sequence

from rich.table import Table
from rich.text import Text

from answerbus.dead_letter import Replayed
from services.operators.dead_letters.forecast import Forecast
from services.replay import views
from services.replay.stopping import HowEnded
from services.text.escaping import plain_line

RUNS_SHOWN = 20  # of a forecast; --json has all


def forecast_table(forecast: Forecast, verb: str) -> Table:
    """What is sent and at what cost at worst; what is held back, why, and one of them."""
    table = Table("letters", "")
    table.add_column("a sample", overflow="fold")
    worst = views.funds_text(forecast.worst)
    table.add_row(f"{forecast.sendable:,}", f"{verb}, at worst {worst}", "")
    for run in forecast.runs[:RUNS_SHOWN]:
        table.add_row("", Text(plain_line(f"a run {run.text()}")), Text(plain_line(run.letter_id)))
    if (more := len(forecast.runs) - RUNS_SHOWN) > 0:
        table.add_row("", f"{more:,} more runs", "")
    for held in forecast.held_back.values():
        forced = " (--force sends it)" if held.rejection.forcible else ""
        message = f"held back, {held.rejection.code}: {held.rejection.text}{forced}"
        table.add_row(
            f"{held.count:,}",
            Text(plain_line(message)),
            Text(plain_line(held.sample)),
            style="yellow",
        )
    return table


def forecast_data(forecast: Forecast) -> dict[str, object]:
    """The same as JSON data."""
    return {
        "sendable": forecast.sendable,
        "worst": views.funds_data(forecast.worst),
        "runs": [
            {
                "dead_letter_id": run.letter_id,
                "goes_on_at_step": None if run.starts_over else run.next_step,
                "effects": [
                    {"call_id": call.call_id, "tool": call.tool, "outcome": call.outcome.kind}
                    for call in run.effects
                ],
            }
            for run in forecast.runs
        ],
        "held_back": [
            {
                "code": held.rejection.code,
                "text": held.rejection.text,
                "forcible": held.rejection.forcible,
                "count": held.count,
                "sample": held.sample,
            }
            for held in forecast.held_back.values()
        ],
    }


def done_data(sent: Sequence[Replayed], forecast: Forecast, end: HowEnded) -> Mapping[str, object]:
    """What was done, as JSON data."""
    letters = [
        {"dead_letter_id": one.dead_letter_id, "request_id": one.request_id, "round": one.round}
        for one in sent
    ]
    return {"end": end, "replayed": len(sent), **forecast_data(forecast), "letters": letters}

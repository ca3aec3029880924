"""What a replay would do, or has done, as a table and as JSON data."""

from collections.abc import Mapping, Sequence

from rich.table import Table
from rich.text import Text

from answerbus.dead_letter import Replayed
from services.escaping import plain_line
from services.operators.dead_letters.forecast import Forecast
from services.replay import views
from services.replay.stopping import HowEnded


def forecast_table(forecast: Forecast, verb: str) -> Table:
    """What is sent and at what cost at worst; what is held back, why, and one of them."""
    table = Table("letters", "")
    table.add_column("a sample", overflow="fold")
    worst = views.funds_text(forecast.worst)
    table.add_row(f"{forecast.sendable:,}", f"{verb}, at worst {worst}", "")
    for held in forecast.held_back.values():
        forced = " (--force sends it)" if held.trouble.forcible else ""
        said = f"held back, {held.trouble.code}: {held.trouble.text}{forced}"
        table.add_row(
            f"{held.count:,}", Text(plain_line(said)), Text(plain_line(held.sample)), style="yellow"
        )
    return table


def forecast_data(forecast: Forecast) -> dict[str, object]:
    """The same as JSON data."""
    return {
        "sendable": forecast.sendable,
        "worst": views.funds_data(forecast.worst),
        "held_back": [
            {
                "code": held.trouble.code,
                "text": held.trouble.text,
                "forcible": held.trouble.forcible,
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

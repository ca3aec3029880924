"""Lives of lanes and requests in docs/guarantees.md, from tables: `python -m infra.lane_page`."""

from collections import defaultdict
from collections.abc import Iterable
from enum import Enum
from pathlib import Path

from infra.metrics_page import between
from services.worker.core.request import life
from services.worker.lane.state.machine import DRAINS, STAY_S_MAX, TRANSITIONS, Event, State

PAGE = Path("docs/guarantees.md")


def page(text: str) -> str:
    """The page with diagrams and tables as they must be."""
    of_lane = ((before, event, after.state) for (before, event), after in TRANSITIONS.items())
    of_request = ((before, event, after) for (before, event), after in life.TRANSITIONS.items())
    text = between(text, "lane diagram", _diagram(State.UNASSIGNED, State.CLOSED, of_lane))
    text = between(text, "lane states", _states())
    request = _diagram(life.RequestState.WAITING, life.RequestState.DONE, of_request)
    text = between(text, "request diagram", request)
    return between(text, "request states", _request_states())


def _diagram(first: Enum, last: Enum, rows: Iterable[tuple[Enum, Enum, Enum]]) -> str:
    """An arrow for each pair of states; what changes no state has none."""
    causes: dict[tuple[Enum, Enum], list[Enum]] = defaultdict(list)
    for before, event, after in rows:
        if after is not before:
            causes[before, after].append(event)
    lines = ["```mermaid", "stateDiagram-v2", f"    [*] --> {first.name}"]
    for (before, end), events in causes.items():
        message = ", ".join(event.name.lower().replace("_", " ") for event in events)
        lines.append(f"    {before.name} --> {end.name}: {message}")
    lines += [f"    {last.name} --> [*]", "```"]
    return "".join(f"{line}\n" for line in lines)


def _states() -> str:
    lines = ["| state | what it is | at most | then |", "|---|---|---|---|"]
    for state in State:
        after = TRANSITIONS.get((state, Event.TIMED_OUT))
        then = ", ".join(effect.name.lower() for effect in after.effects) if after else ""
        at_most = "`drain_s`" if state in DRAINS else f"{STAY_S_MAX.get(state, 0):,.0f} s"
        shown = f"`{after.state.name}`: {then}" if after else ""
        lines.append(f"| `{state.name}` | {state.value} | {at_most if after else ''} | {shown} |")
    return "".join(f"{line}\n" for line in lines)


def _request_states() -> str:
    lines = ["| state | the request |", "|---|---|"]
    lines += [f"| `{state.name}` | {state.value} |" for state in life.RequestState]
    return "".join(f"{line}\n" for line in lines)


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")

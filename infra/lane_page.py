"""The life of a lane in docs/guarantees.md, from its table: `python -m infra.lane_page`."""

from collections import defaultdict
from pathlib import Path

from infra.metrics_page import between
from services.worker.lane.state.machine import DRAINS, STAY_S_MAX, TRANSITIONS, Event, State

PAGE = Path("docs/guarantees.md")


def page(text: str) -> str:
    """The page with diagram and table as they must be."""
    text = between(text, "lane diagram", _diagram())
    return between(text, "lane states", _states())


def _diagram() -> str:
    """An arrow for each pair of states; what changes no state has none."""
    causes: dict[tuple[State, State], list[Event]] = defaultdict(list)
    for (before, event), after in TRANSITIONS.items():
        if after.state is not before:
            causes[before, after.state].append(event)
    lines = ["```mermaid", "stateDiagram-v2", "    [*] --> UNASSIGNED"]
    for (before, end), events in causes.items():
        message = ", ".join(event.name.lower().replace("_", " ") for event in events)
        lines.append(f"    {before.name} --> {end.name}: {message}")
    lines += ["    CLOSED --> [*]", "```"]
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


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")

"""How much was done in the runs of a history, and how much of it twice."""

from collections import Counter

from tests.chaos.audit.history import History
from tests.chaos.audit.run_records import RunRecords


def summary(history: History) -> str:
    """In one line, to be put behind that of the requests; empty without runs."""
    runs = RunRecords(history)
    if runs.is_empty:
        return ""
    deliveries = sum(map(len, runs.delivered.values()))
    ends = Counter(end[0].body["outcome"]["kind"] for end in runs.ended.values())
    message = ", ".join(f"{count} {kind}" for kind, count in ends.most_common())
    again = [
        history.calls_of[spend][0]
        for spend, events in history.attempts.items()
        if events[0].body["outcome"] == "unknown" and spend in history.calls_of
    ]
    cut = sum(call.ended is None for call in again)
    return (
        f"; {len(runs.requests)} runs, {sum(map(len, runs.steps.values()))} steps, "
        f"{len(runs.asked)} tool calls ({message}), {deliveries} deliveries, "
        f"{len(history.deeds or ())} tools begun, {doubled(runs)} effects at most once doubled, "
        f"{_found_out(runs)}, "
        f"{len(again)} calls of models asked again ({cut} cut by the end of their worker)"
    )


def _found_out(runs: RunRecords) -> str:
    """Of calls at most once whose result was lost."""
    last = (ends[-1].body for ends in runs.ended.values())
    reconciled = sum(bool(end.get("reconciled")) for end in last)
    findings = [finding["kind"] for found in runs.found.values() for finding in found]
    unknown = sum(
        ends[-1].body["outcome"].get("ran") == "unknown" and call_id in runs.found
        for call_id, ends in runs.ended.items()
    )
    again = findings.count("did_not_happen")
    return f"{reconciled} fates found out, {again} delivered again, {unknown} asked and unknown"


def doubled(runs: RunRecords) -> int:
    """Calls that may run once at most, and ran more often."""
    return sum(
        len(deeds) > 1
        for call_id, deeds in runs.deeds.items()
        for step, call in runs.asked.get(call_id, [])[:1]
        if runs.cards(step.body["request_id"]).get(call["tool"], {}).get("delivery")
        == "at_most_once"
    )

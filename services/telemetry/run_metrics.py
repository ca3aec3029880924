"""The metrics of runs and their tools, declared as those in metrics.py."""

from services.telemetry.metric import REQUEST_BUCKETS_S, Metric

# From a tool that looks something up in memory to the longest time-out of a tool, 6 h.
TOOL_BUCKETS_S = (
    *(0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0),
    *(300.0, 900.0, 3_600.0, 21_600.0),
)

RUNS_OPEN = Metric(
    "answerbus_runs_open",
    "gauge",
    ("stage",),
    "Runs that have taken a step and have no outcome: `working` on the next, `waiting` for tools, "
    "or `awaits_approval`.",
)
APPROVALS_WAITING = Metric(
    "answerbus_approvals_waiting", "gauge", (), "Tool calls that wait for a person."
)
APPROVAL_AGE = Metric(
    "answerbus_approval_age_seconds",
    "gauge",
    (),
    "How long the oldest tool call that waits for a person has waited; 0 if there is none.",
)
RUN_STEPS = Metric("answerbus_run_steps_total", "counter", ("agent",), "Steps that were taken.")
RUN_REPEATS = Metric(
    "answerbus_run_repeats_total",
    "counter",
    ("agent",),
    "Steps that made the same calls as the two before them, or as more.",
)
TOOL_CALLS = Metric(
    "answerbus_tool_calls_total",
    "counter",
    ("tool", "end"),
    "Tool calls that have ended, by how; a tool that the agent does not have is `unknown`.",
)
TOOL_CALL_DURATION = Metric(
    "answerbus_tool_call_duration_seconds",
    "histogram",
    ("tool",),
    "From a tool call as it is first sent to its end; calls that were never sent are not in it.",
    TOOL_BUCKETS_S,
)
UNHEARD = Metric(
    "answerbus_results_unheard_total",
    "counter",
    (),
    "Results and controls that nothing waited for: late, double, forged, misplaced, unreadable.",
)
CARDS_REFUSED = Metric(
    "answerbus_cards_refused_total",
    "counter",
    ("toolset",),
    "Cards of toolsets that were not taken: under another key, of another toolset, unreadable, "
    "not as pinned, or with a schema that cannot be used.",
)
RUNS_ENDED = Metric(
    "answerbus_runs_ended_total",
    "counter",
    ("agent", "kind", "cause"),
    "Runs that have had their outcome; `cause` is that of a dead letter, else `none`.",
)
RUN_DURATION = Metric(
    "answerbus_run_duration_seconds",
    "histogram",
    ("agent",),
    "From the append of a run's request to its outcome.",
    REQUEST_BUCKETS_S,
)

RUN_METRICS = (
    *(RUNS_OPEN, APPROVALS_WAITING, APPROVAL_AGE, RUN_STEPS, RUN_REPEATS, TOOL_CALLS),
    *(TOOL_CALL_DURATION, UNHEARD, CARDS_REFUSED, RUNS_ENDED, RUN_DURATION),
)

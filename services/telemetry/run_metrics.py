"""The metrics of runs and their tools, declared as those in metrics.py."""

from services.telemetry.metric import REQUEST_BUCKETS_S, Metric

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
UNHEARD = Metric(
    "answerbus_results_unheard_total",
    "counter",
    (),
    "Results of tools and controls that nothing waited for: late, double, forged or unreadable.",
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
    *(UNHEARD, RUNS_ENDED, RUN_DURATION),
)

"""Every metric of answerbus by name: the one place where names, labels and buckets are declared.

Labels are bounded: by settings (profile, agent, tool), by what is installed (contract, else
`inline`, `text` or `unknown`), by Kafka (partition) and by closed unions. None is ever an id, or
untrusted text, except for values of the labels that `telemetry.labels` names: the first
LABEL_VALUES_MAX of each.
"""

from services.telemetry.counts import REQUEST_BUCKETS_S, Metric

LABEL_VALUES_MAX = 100  # of one label, in one worker
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
    "Tool calls that have ended, by how; `repeated` were answered from the result of an equal one."
    " A tool that the agent does not have is `unknown`.",
)
TOOL_CALL_DURATION = Metric(
    "answerbus_tool_call_duration_seconds",
    "histogram",
    ("tool",),
    "From a tool call as it is first sent to its end; calls that were never sent are not in it.",
    TOOL_BUCKETS_S,
)
IGNORED_RESULTS = Metric(
    "answerbus_results_ignored_total",
    "counter",
    (),
    "Results and controls that nothing waited for: late, double, forged, misplaced, unreadable.",
    formerly="answerbus_results_unheard_total",
)
CARDS_REFUSED = Metric(
    "answerbus_cards_refused_total",
    "counter",
    ("toolset",),
    "Cards of toolsets that were not taken whole: under another key, of another toolset, "
    "unreadable, not as pinned, with a schema that cannot be used, or with changes to accept.",
)
TOOLS_STOPPED = Metric(
    "answerbus_tools_stopped",
    "gauge",
    ("toolset",),
    "Tools that need approval and have changed: not called until `answerbus tools accept`.",
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
    *(TOOL_CALL_DURATION, IGNORED_RESULTS, CARDS_REFUSED, TOOLS_STOPPED, RUNS_ENDED, RUN_DURATION),
)


CALL_BUCKETS_S = (
    *(0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0),
    *(900.0, 3_600.0),  # the longest `timeout_s` of a profile
)
COMMIT_BUCKETS_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)

RECEIVED = Metric(
    "answerbus_requests_received_total",
    "counter",
    ("contract", "profile"),
    "Requests that a lane has admitted; those delivered again after a reopening count again.",
    formerly="answerbus_requests_taken_total",
)
DUPLICATES = Metric(
    "answerbus_requests_duplicate_total",
    "counter",
    (),
    "Copies of known requests, dropped.",
)
FORWARDED = Metric(
    "answerbus_requests_forwarded_total",
    "counter",
    (),
    "Requests in another's partition, sent on to its owner's.",
)
UNREADABLE = Metric(
    "answerbus_requests_unreadable_total",
    "counter",
    (),
    "Records or whole batches that no Kafka client can read, each with its dead letter.",
)
LOST_TO_RETENTION = Metric(
    "answerbus_requests_lost_to_retention_total",
    "counter",
    (),
    "Requests that retention deleted before they were read: lost.",
    formerly="answerbus_requests_unread_total",
)
TERMINALS = Metric(
    "answerbus_terminals_total",
    "counter",
    ("kind", "contract", "profile"),
    "Requests that have had their one outcome.",
)
DEAD_LETTERS = Metric(
    "answerbus_dead_letters_total",
    "counter",
    ("cause", "failure", "profile"),
    "The dead letters among them, with the failure of the last attempt.",
)
REQUEST_DURATION = Metric(
    "answerbus_request_duration_seconds",
    "histogram",
    ("kind",),
    "From a request's append to its outcome.",
    REQUEST_BUCKETS_S,
)
ATTEMPTS = Metric(
    "answerbus_attempts_total",
    "counter",
    ("outcome", "failure", "counted", "profile"),
    "Spends by outcome; `failure` is `none` where the call gave a result.",
)
FALLBACK_CALLS = Metric(
    "answerbus_fallback_calls_total",
    "counter",
    ("instead_of", "profile", "because"),
    "Calls of a fallback, by the profile whose place it took, and why.",
)
TOKENS = Metric(
    "answerbus_tokens_total",
    "counter",
    ("direction", "profile"),
    "Tokens as providers reported them, `input` and `output`.",
)
CACHED_TOKENS = Metric(
    "answerbus_cached_tokens_total",
    "counter",
    ("profile",),
    "Tokens of the input that providers read from their caches, as they reported them.",
)
SPENT = Metric(
    "answerbus_spent_micro_usd_total",
    "counter",
    ("contract", "profile"),
    "What they cost, in millionths of a US dollar, where the profile has a price.",
)
LABEL_SPENT = Metric(
    "answerbus_label_spent_micro_usd_total",
    "counter",
    ("label", "value"),
    "The same by the labels of requests that `telemetry.labels` names; `(others)` are values "
    f"beyond {LABEL_VALUES_MAX} of a label, `(none)` requests without it.",
)
LABEL_OUTCOMES = Metric(
    "answerbus_label_outcomes_total",
    "counter",
    ("label", "value", "kind"),
    "Outcomes by these labels.",
)
CALL_DURATION = Metric(
    "answerbus_call_duration_seconds",
    "histogram",
    ("reply", "profile"),
    "Calls to providers, by what they came to.",
    CALL_BUCKETS_S,
)
COMMIT_DURATION = Metric(
    "answerbus_commit_duration_seconds",
    "histogram",
    (),
    "Transactions that were committed.",
    COMMIT_BUCKETS_S,
)
TRANSACTIONS = Metric(
    "answerbus_transactions_total",
    "counter",
    ("result",),
    "Transactions, `committed` or `lost`: these may have happened; what they held is not counted.",
)
OPENINGS = Metric(
    "answerbus_lane_openings_total",
    "counter",
    ("partition",),
    "How often a lane was opened, first or again.",
)
IN_FLIGHT = Metric(
    "answerbus_calls_in_flight", "gauge", ("profile",), "Calls that providers work on now."
)
ALLOWED = Metric(
    "answerbus_calls_allowed",
    "gauge",
    (),
    "Calls that the worker may have in flight, over all profiles: `worker.max_in_flight`.",
)
HELD = Metric("answerbus_retries_held", "gauge", (), "Retries in memory that wait for their time.")
BUDGETS_NEARLY_SPENT = Metric(
    "answerbus_budgets_nearly_spent",
    "gauge",
    ("budget",),
    "Budgets of labels that are four fifths used in this day or month, by their name in the "
    "settings; a log line names each.",
)
LANE_STATE = Metric(
    "answerbus_lane_state",
    "gauge",
    ("partition", "state"),
    "1 for the state a lane is in; docs/guarantees.md says what each means.",
)
LANE_STUCK = Metric(
    "answerbus_lane_stuck",
    "gauge",
    ("partition",),
    "1 while a lane has work and makes no progress; `/ready` says why.",
)
LANE_QUEUE = Metric(
    "answerbus_lane_requests", "gauge", ("partition",), "Requests in a lane's hands."
)
LANE_LAG = Metric(
    "answerbus_lane_lag",
    "gauge",
    ("partition",),
    "Offsets from the first unfinished request to the end of the partition; 0 if all are done.",
)
LANE_UNREAD = Metric(
    "answerbus_lane_unread_seconds",
    "gauge",
    ("partition",),
    "How long records have waited to be read by a lane that takes requests in.",
)
LANE_HELD_BACK = Metric(
    "answerbus_lane_held_back_seconds",
    "gauge",
    ("partition",),
    "How long an open transaction of somebody else has kept a lane from reading on.",
)
OLDEST = Metric(
    "answerbus_lane_oldest_request_age_seconds",
    "gauge",
    ("partition",),
    "Age of the oldest request that a lane has not finished and that waits for no person.",
)
FAILED_OPENINGS = Metric(
    "answerbus_lane_openings_without_progress",
    "gauge",
    ("partition",),
    "Openings since the lane last got anything done.",
)
HELD_REQUESTS = Metric(
    "answerbus_lane_holder_requests",
    "gauge",
    ("partition", "workflow_id"),
    "Requests of the workflow that holds a lane: a hundred or more and most of it, or a full lane.",
)
HELD_AGE = Metric(
    "answerbus_lane_holder_age_seconds",
    "gauge",
    ("partition", "workflow_id"),
    "Age of the oldest request of the workflow that holds a lane.",
)
PROFILE_UNHEALTHY = Metric(
    "answerbus_profile_unhealthy",
    "gauge",
    ("profile",),
    "1 while the requests of a profile cannot be answered; `/ready` says why.",
    formerly="answerbus_profile_sick",
)
PROFILE_REJECTED = Metric(
    "answerbus_profile_rejected", "gauge", ("profile",), "1 while the provider rejects the set-up."
)
BREAKER_OPEN = Metric(
    "answerbus_profile_breaker_open",
    "gauge",
    ("profile",),
    "1 while a profile is left alone but for probes.",
)
PROFILE_THROTTLED = Metric(
    "answerbus_profile_throttled",
    "gauge",
    ("profile",),
    "1 while its provider or its rate, and not the number of workers, holds calls back.",
)
SILENCE = Metric(
    "answerbus_profile_silence_seconds",
    "gauge",
    ("profile",),
    "How long calls have been tried without a word from the provider.",
)
KAFKA_SILENCE = Metric(
    "answerbus_kafka_silence_seconds", "gauge", (), "Since the broker last answered the worker."
)
NOT_READ = Metric(
    "answerbus_requests_not_read",
    "gauge",
    (),
    "1 while Kafka answers and no request can be read; `/ready` says why.",
)
STALLS = Metric(
    "answerbus_event_loop_stalls_total",
    "counter",
    (),
    "How often the event loop stood still for half a second or longer.",
)
LATENESS = Metric(
    "answerbus_event_loop_lateness_seconds",
    "gauge",
    (),
    "The longest that the event loop stood still in the last minute.",
)
TASKS = Metric("answerbus_event_loop_tasks", "gauge", (), "Tasks of the event loop.")
CLOCK_AHEAD = Metric(
    "answerbus_clock_ahead_seconds",
    "gauge",
    (),
    "How far the clock of the worker's machine is ahead of the broker's; negative if behind.",
)
SETTINGS_REFUSED = Metric(
    "answerbus_settings_refused", "gauge", (), "1 while the settings file is not in force."
)
READY = Metric("answerbus_ready", "gauge", (), "1 while `/ready` answers 200.")

METRICS = (
    *(RECEIVED, DUPLICATES, FORWARDED, UNREADABLE, LOST_TO_RETENTION, TERMINALS, DEAD_LETTERS),
    *(REQUEST_DURATION, ATTEMPTS, FALLBACK_CALLS, TOKENS, CACHED_TOKENS, SPENT, LABEL_SPENT),
    *(LABEL_OUTCOMES, CALL_DURATION),
    *(COMMIT_DURATION, TRANSACTIONS),
    *(OPENINGS, HELD_REQUESTS, HELD_AGE),
    *(IN_FLIGHT, ALLOWED, HELD, LANE_STATE, LANE_STUCK, LANE_QUEUE, LANE_LAG, LANE_UNREAD),
    *(LANE_HELD_BACK, BUDGETS_NEARLY_SPENT),
    *(OLDEST, FAILED_OPENINGS, PROFILE_UNHEALTHY, PROFILE_REJECTED, BREAKER_OPEN),
    *(PROFILE_THROTTLED, SILENCE, KAFKA_SILENCE, NOT_READ, STALLS, LATENESS, TASKS),
    *(CLOCK_AHEAD, SETTINGS_REFUSED, READY),
    *RUN_METRICS,
)

SHADOW_ASKED = Metric(
    "answerbus_shadow_asked_total",
    "counter",
    ("profile", "shadow", "outcome"),
    "Requests of a profile that its shadow was asked: `answered`, `invalid`, `refused`, `failed`.",
)
SHADOW_DROPPED = Metric(
    "answerbus_shadow_dropped_total",
    "counter",
    ("profile", "why"),
    "Requests that were drawn and not asked again: too many waited (`busy`), the day's money or "
    "calls are used up (`over_budget`), the shadow took no call (`away`), its records are `gone`, "
    "or it was open for too long (`forgotten`).",
)
SHADOW_SPENT = Metric(
    "answerbus_shadow_spent_micro_usd_total",
    "counter",
    ("profile", "shadow"),
    "What shadows were charged since the start, in millionths of a US dollar.",
)
SHADOW_METRICS = (SHADOW_ASKED, SHADOW_DROPPED, SHADOW_SPENT)

"""Every size and range of the wire contract, one named constant each (docs/wire.md, "Sizes")."""

KIB = 1024

REQUEST_BYTES_MAX = 512 * KIB
INLINE_SCHEMA_BYTES_MAX = 64 * KIB
INLINE_SCHEMA_DEPTH_MAX = 32
INLINE_SCHEMA_NODES_MAX = 5_000
ANSWER_BYTES_MAX = 256 * KIB
PRIOR_ANSWER_BYTES_MAX = 32 * KIB
PRIOR_ENTRIES_MAX = 32
PROFILES_FAILED_MAX = 32  # of one request, whose failures are counted
EQUAL_ANSWERS_DEFAULT = 4  # to one question: each way of saying what is wrong was tried
DIFF_BYTES_MAX = 64 * KIB
RATIONALE_BYTES_MAX = 2 * KIB
REASON_BYTES_MAX = 2 * KIB
NOTES_MAX = 32
NOTE_BYTES_MAX = 1 * KIB
PROBLEMS_MAX = 20
PROBLEM_BYTES_MAX = 512
ENVELOPE_EXTRA_BYTES_MAX = 64 * KIB  # what a RetryRequest or DeadLetter adds to its request
RAW_BYTES_MAX = 384 * KIB
RAW_HEADERS_MAX = 64
RAW_HEADER_BYTES_MAX = 1 * KIB  # of each header name and each header value that a letter keeps
EXCERPT_BYTES_MAX = 256
RECORD_BYTES_MAX = 1024 * KIB  # Kafka's default for a record of ours

REQUEST_ID_CHARS_MAX = 128
WORKFLOW_ID_CHARS_MAX = 256
NAME_CHARS_MAX = 128  # profiles, contracts, inline schemas, facts
LABELS_MAX = 32
LABEL_CHARS_MAX = 256
TTL_S_MAX = 86_400
RUN_TTL_S_MAX = 6 * 86_400  # of a request that an agent works on; accounts are known for 7 days
TTL_S_DEFAULT = 3_600
ATTEMPTS_MAX = 1_000_000
ATTEMPTS_DEFAULT = 3
AMOUNT_MAX = 2**63 - 1  # of tokens, or micro-dollars: other languages have 64 bits for a number
MESSAGES_MAX = 1_000
FACTS_MAX = 1_000
JSON_DEPTH_MAX = 200  # levels of nesting that the JSON reader accepts
# Names and values of one JSON text, as `json_values` counts them: to read a record takes time and
# memory by these more than by its bytes. An event may hold a request, and what became of it.
REQUEST_VALUES_MAX = 18_000
ANSWER_VALUES_MAX = 18_000
TOOL_RESULT_VALUES_MAX = 18_000
PRIOR_VALUES_MAX = 3_000  # of the answers of earlier attempts, in one event of a worker
EVENT_VALUES_MAX = 28_000
COMPARED_FIELDS_MAX = 64  # members of one answer that are compared
COMPARED_PATH_CHARS_MAX = 256
MODEL_CHARS_MAX = 256

# Runs: what an agent may do in one.
STEPS_DEFAULT = 12
STEPS_MAX = 100
AGENT_TOOLS_MAX = 48
STEP_CALLS_MAX = 32  # that are made; the others of a step end as `not_run`
STEP_ACTIONS_MAX = 500  # of one answer
PARALLEL_CALLS_DEFAULT = 8
PARALLEL_CALLS_MAX = 32
CHILDREN_DEFAULT = 16
CHILDREN_MAX = 64
DEPTH_DEFAULT = 2
DEPTH_MAX = 4
DELEGATES_MAX = 48  # agents, and profiles, that a run may choose for its children
PROPOSALS_MAX = 16  # of one run
CHILD_SCHEMA_BYTES_MAX = 16 * KIB  # that a model writes
CHILD_TEXT_BYTES_MAX = 16 * KIB  # of instructions
USES_MAX = 32  # facts and results that one child is given
TRANSCRIPT_BYTES_MAX = 512 * KIB
REPEATS_REMARKED = 2  # steps running with the same calls, from which on the model is warned
REPEATS_COUNTED = 3  # and from which on operators are warned
ANSWERED_MAX = 2  # steps running with nothing but calls answered before, after which a run ends
CALL_FAILURES_MAX = 5  # of a tool with the same arguments, after which the call is not made
RUN_ATTEMPTS_DEFAULT = 20  # three suit no loop
DEFINITION_BYTES_MAX = 160 * KIB  # of an agent with its tools, which is frozen into each run
CANCELLED_AT_ONCE_MAX = 2_000  # requests of one workflow
REPEATS_MAX = 5  # and from which on tools leave the schema

# Tools: calls, results and the cards of toolsets.
CALL_ID_CHARS_MAX = 192
TOOLSET_NAME_CHARS_MAX = 64
TOOL_NAME_CHARS_MAX = 128
TOOLSET_TOOLS_MAX = 256
TOOL_ARGS_BYTES_MAX = 64 * KIB
EDITED_ARGS_VALUES_MAX = 4_000  # by a person: in one event with the result of the call
TOOL_RESULT_BYTES_MAX = 64 * KIB
TOOL_EXCERPT_BYTES_MAX = 2 * KIB
TOOL_DESCRIPTION_BYTES_MAX = 8 * KIB
TOOL_TIMEOUT_S_DEFAULT = 30.0
TOOL_COST_MICRO_USD_MAX = 1_000_000_000  # of one call: a thousand dollars
TOOL_TIMEOUT_S_MAX = 21_600.0
TOOL_DELIVERIES_MAX = 3
TOOL_QUESTIONS_DEFAULT = 3  # about the fate of one delivery of a call, before a person is asked
TOOL_QUESTIONS_MAX = 20
INPUT_SCHEMA_BYTES_MAX = 4 * KIB  # of what a person is asked for
TOOL_STATE_BYTES_MAX = 16 * KIB  # by which a server goes on with a call
CALL_INPUTS_MAX = 10  # questions to people by the tool of one call

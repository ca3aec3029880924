"""Each runbook followed against the fault that it is for: `make alerts` does it while alerts fire.

What is looked at and done is quoted from the page (tests/infra/test_runbooks.py), so a page cannot
say something else than what was tried.
"""

import json
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tests.alerts.stage import PARTITIONS, Stage

CALL_TIMEOUT_S = 1  # of the tools of run.py
WHY = ("--reason", "tried by make alerts", "--yes")

Holds = Callable[[Stage], Awaitable[bool]]
"""Whether it is so, or was done; it is asked again for a while."""


@dataclass(frozen=True)
class Followed:
    """Sentences of a page with what was tried of them: while the alert fires, and afterwards.

    `seen` and `done` are tried in their order during the fault, `over` once the alert is resolved.
    """

    page: str
    seen: Mapping[str, Holds]
    done: Mapping[str, Holds]
    over: Mapping[str, Holds]


def ready(holds: Callable[[Mapping[str, Any]], bool]) -> Holds:
    """What a worker says at `/ready`."""

    async def ask(stage: Stage) -> bool:
        text = stage.page("/ready")
        return bool(text) and holds(json.loads(text))

    return ask


def metric(
    name: str, holds: Callable[[float], bool] = lambda value: value > 0, **labels: str
) -> Holds:
    """One of the series with these labels."""

    async def ask(stage: Stage) -> bool:
        series = re.findall(rf"^{name}({{.*}})? (\S+)$", stage.page("/metrics"), re.M)
        pairs = [f'{label}="{value}"' for label, value in labels.items()]
        values = [float(value) for own, value in series if all(pair in own for pair in pairs)]
        return any(map(holds, values))

    return ask


def no_metric(name: str, holds: Callable[[float], bool] = lambda value: value > 0) -> Holds:
    some = metric(name, holds)

    async def ask(stage: Stage) -> bool:
        return "answerbus_ready" in stage.page("/metrics") and not await some(stage)

    return ask


def logged(text: str) -> Holds:
    async def ask(stage: Stage) -> bool:
        return stage.has_logged(text)

    return ask


def command(*words: str, shows: str = "", code: int | None = 0) -> Holds:
    """A command of the page ends with this code, if one is given, and shows a match."""

    async def ask(stage: Stage) -> bool:
        try:
            ended = await stage.command(*words)
        except TimeoutError:  # nothing is there to be shown
            return False
        text = ended.out + ended.err
        return code in (None, ended.code) and bool(re.search(shows, text))

    return ask


def both(*parts: Holds) -> Holds:
    async def ask(stage: Stage) -> bool:
        return all([await part(stage) for part in parts])

    return ask


async def decided(stage: Stage) -> bool:
    """The oldest call that awaits a person is denied, and a worker has read it."""
    listed = json.loads((await stage.command("approvals", "list", "--json")).out or "[]")
    if not listed:
        return False
    return (await stage.command("approvals", "deny", listed[0]["call_id"], *WHY)).code == 0


def tree(shows: str) -> Holds:
    """The tree of the first run that calls a silent tool; the one before it awaits a person."""

    async def ask(stage: Stage) -> bool:
        ended = await stage.command("workflow", stage.runs[1], "--tree", "--show-content")
        return bool(re.search(shows, ended.out, re.S))

    return ask


async def cancelled(stage: Stage) -> bool:
    """The run that asked for it is of no use any more."""
    return (await stage.command("cancel", "--workflow", stage.runs[0], *WHY)).code == 0


def _healthy(body: Mapping[str, Any]) -> bool:
    return body["ready"] is True


NO_PROFILE_IS_UNHEALTHY = ready(lambda body: body["unhealthy_profiles"] == {})
IS_READY = ready(_healthy)

RUNBOOKS: Mapping[str, Followed] = {
    "ProfileSick": Followed(
        "profile-unhealthy",
        {
            "gives status and code": ready(
                lambda body: "status 401" in body["unhealthy_profiles"].get("sick", "")
            ),
            "`answerbus_profile_rejected`": metric("answerbus_profile_rejected", profile="sick"),
        },
        {
            "Running workers take the change": both(
                lambda stage: stage.reply_well_to("sick"),
                ready(lambda body: "sick" not in body["unhealthy_profiles"]),
            )
        },
        {"`unhealthy_profiles` is empty": NO_PROFILE_IS_UNHEALTHY},
    ),
    "ProviderSilent": Followed(
        "provider-silent",
        {
            "names each profile of that server with the reason": ready(
                lambda body: "silent" in body["unhealthy_profiles"]
            ),
            "`answerbus_profile_unhealthy` without `answerbus_profile_rejected`": both(
                metric("answerbus_profile_unhealthy", profile="silent"),
                metric("answerbus_profile_rejected", lambda value: value == 0, profile="silent"),
            ),
        },
        {},
        {
            "`answerbus_profile_unhealthy` and `answerbus_profile_silence_seconds` are 0": both(
                no_metric("answerbus_profile_unhealthy"),
                no_metric("answerbus_profile_silence_seconds"),
            )
        },
    ),
    "DeadLettersGrowing": Followed(
        "dead-letters-growing",
        {
            "`answerbus replay groups`": command("replay", "groups", shows="malformed"),
            "`answerbus_dead_letters_total` by `cause`, `failure` and `profile`": metric(
                "answerbus_dead_letters_total",
                cause="budget_exhausted",
                failure="malformed",
                profile="broken",
            ),
            "The workers' logs": logged("dead letter: malformed"),
        },
        {"Then `answerbus replay dry-run`": command("replay", "dry-run", "--limit", "1")},
        {
            "`answerbus replay groups` shows no open group that was not looked at": both(
                command("replay", "dismiss", *WHY),
                command("replay", "groups", "--json", shows=r"^\[\s*\]\s*$"),
            )
        },
    ),
    "SpendHigh": Followed(
        "spend-high",
        {
            "`answerbus spend`": command("spend", "--range", "1h", shows="scripted"),
            "`answerbus_spent_micro_usd_total`": metric(
                "answerbus_spent_micro_usd_total", profile="costly"
            ),
        },
        {},
        {},
    ),
    "BudgetNearlySpent": Followed(
        "budget-nearly-spent",
        {
            "`answerbus_budgets_nearly_spent` by `budget`": metric(
                "answerbus_budgets_nearly_spent", budget="tenant:*"
            ),
            "`80 % of the budget tenant:acme of": logged("80 % of the budget tenant:acme of"),
        },
        {},
        {"`answerbus_budgets_nearly_spent` is 0": no_metric("answerbus_budgets_nearly_spent")},
    ),
    "DeadlineMisses": Followed(
        "deadline-misses",
        {
            "`answerbus replay groups --where cause=deadline_passed`": command(
                *("replay", "groups", "--where", "cause=deadline_passed"), shows=r"\bslow\b"
            )
        },
        {},
        {},
    ),
    "RefusalsHigh": Followed(
        "refusals-high",
        {
            "`answerbus watch --kind refusal`": command(
                *("watch", "--kind", "refusal", "--from-start", "--limit", "1", "--json"),
                shows='"by"',
            ),
            "`answerbus_terminals_total` with kind `refusal`": metric(
                "answerbus_terminals_total", kind="refusal", profile="refusing"
            ),
        },
        {},
        {},
    ),
    "RepairsHigh": Followed(
        "repairs-high",
        {
            "`answerbus_attempts_total` by `failure` and profile": metric(
                "answerbus_attempts_total", failure="malformed", profile="broken"
            ),
            "`answerbus watch --kind retry_request`": command(
                *("watch", "--kind", "retry_request", "--from-start", "--limit", "1", "--json"),
                shows="malformed|timed_out|unavailable",
            ),
            "`answerbus replay groups`: which contract and model?": command(
                "replay", "groups", "--by", "contract", "--by", "model", shows="plan_proposal"
            ),
        },
        {},
        {},
    ),
    "LoopStalls": Followed(
        "loop-stalls",
        {
            "`/ready`: `loop.stalls` and `loop.worst_s`": ready(
                lambda body: body["loop"]["stalls"] > 0 and body["loop"]["worst_s"] > 5
            ),
        },
        {},
        {"regains its lanes by itself": IS_READY},
    ),
    "LanesReopen": Followed(
        "lanes-reopen",
        {
            "`answerbus_transactions_total` with result `lost`": metric(
                "answerbus_transactions_total", result="lost"
            ),
            "`lost its producer: ERROR`": logged("lost its producer: "),
        },
        {},
        {
            "is 0 or 1 for all lanes": no_metric(
                "answerbus_lane_openings_without_progress", lambda value: value > 1
            )
        },
    ),
    "ClockOff": Followed(
        "clock-off",
        {
            "`answerbus_clock_ahead_seconds` by worker": metric(
                "answerbus_clock_ahead_seconds", lambda value: value > 30
            ),
        },
        {},
        {
            "`answerbus_clock_ahead_seconds` is near 0": metric(
                "answerbus_clock_ahead_seconds", lambda value: abs(value) < 1
            )
        },
    ),
    "SettingsRefused": Followed(
        "settings-refused",
        {
            "`settings.refused` is the reason": ready(lambda body: body["settings"]["refused"]),
            "The log has the reason too": logged("answerbus.toml"),
            "`answerbus_settings_refused` by worker": metric("answerbus_settings_refused"),
        },
        {},
        {"`settings.refused` is null": ready(lambda body: body["settings"]["refused"] is None)},
    ),
    "RequestsLost": Followed(
        "requests-lost",
        {
            "were deleted before they were read": logged("were deleted before they were read"),
            "`answerbus_requests_lost_to_retention_total`": metric(
                "answerbus_requests_lost_to_retention_total"
            ),
        },
        {},
        {"the lag is far below the retention": no_metric("answerbus_lane_lag", lambda n: n > 100)},
    ),
    "Lag": Followed(
        "lag",
        {
            "`answerbus_lane_lag` and `answerbus_lane_oldest_request_age_seconds`": both(
                metric("answerbus_lane_lag", lambda lag: lag > 1_000),
                metric("answerbus_lane_oldest_request_age_seconds"),
            ),
            "`answerbus_calls_in_flight` against": metric(
                "answerbus_calls_in_flight", lambda count: count >= 500
            ),
        },
        {},
        {"The lag falls": no_metric("answerbus_lane_lag", lambda lag: lag > 1_000)},
    ),
    "KafkaAway": Followed(
        "kafka-away",
        {
            "`kafka_silent_s`": ready(
                lambda body: body["kafka_silent_s"] > 45 and bool(body["reasons"])
            ),
            "`answerbus_kafka_silence_seconds` by worker": metric(
                "answerbus_kafka_silence_seconds", lambda silent_s: silent_s > 45
            ),
        },
        {},
        {
            "`answerbus_kafka_silence_seconds` is below 3 and `/ready` answers 200": both(
                metric("answerbus_kafka_silence_seconds", lambda silent_s: silent_s < 3), IS_READY
            )
        },
    ),
    "LaneStuck": Followed(
        "lane-stuck",
        {
            "`stuck` names the lane and the reason": ready(
                lambda body: bool(body["stuck"]) and bool(body["reasons"])
            ),
            "`answerbus_lane_stuck`": metric("answerbus_lane_stuck"),
        },
        {},
        {"`/ready` answers 200": IS_READY},
    ),
    "ToolSilent": Followed(
        "tool-silent",
        {
            "`answerbus workflow ID --tree` of a run": tree(
                f"no result within {CALL_TIMEOUT_S} s.*it (may have run|did not run)"
            ),
            "The lag of the group `<prefix>.tools.<toolset>`": metric(
                "answerbus_tool_calls_total", end="timed_out"
            ),
        },
        {},
        {},
    ),
    "ApprovalsOld": Followed(
        "approvals-old",
        {"`answerbus approvals list`": command("approvals", "list", shows=r"shop\.pay")},
        {
            "`answerbus approvals deny CALL --reason …`": decided,
            "`answerbus cancel REQUEST --reason …`": cancelled,
        },
        {
            "`answerbus approvals list` shows none that is older": command(
                "approvals", "list", "--json", shows=r"^\[\s*\]\s*$"
            )
        },
    ),
    "RunsRepeat": Followed(
        "runs-that-repeat",
        {
            "the same tool with the same arguments, step after step": tree(
                r"shop\.echo.*shop\.echo.*shop\.echo"
            )
        },
        {},
        {},
    ),
    "NoWorker": Followed(
        "no-worker",
        {
            "`answerbus doctor`: broker, topics and profiles": command(
                "doctor", shows="broker", code=None
            )
        },
        {},
        {
            '`sum(answerbus_lane_state{state="open"})` is the number of partitions': ready(
                lambda body: list(body["lanes"].values()) == ["open"] * PARTITIONS
            )
        },
    ),
    "RequestsNotRead": Followed(
        "requests-not-read",
        {
            "`/ready`: `reasons` where it concerns all lanes": ready(
                lambda body: any(
                    "is missing, or there is no right" in why for why in body["reasons"]
                )
            ),
            "`answerbus_requests_not_read` by worker": metric("answerbus_requests_not_read"),
        },
        {"`answerbus topics apply`": command("topics", "apply")},
        {
            "`answerbus_lane_unread_seconds` is 0 for all partitions": both(
                IS_READY, no_metric("answerbus_lane_unread_seconds")
            )
        },
    ),
}

"""Histories whose workflows share budgets of teams and of one company, over all lanes."""

import json
import random
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress

from answerbus.topics import ATTEMPTS, REQUESTS, STEPS
from services.worker.core.shared_budget.rules import BudgetRules, PeriodLimits
from tests.chaos.audit.record import Record

SHARE = 0.4  # of all histories
CALL = ".call."
TEAMS = ("red", "blue", "")
CALLS_OF_COMPANY = (8, 30, 1_000)
MICRO_USD_OF_TEAM = (4_000, 40_000, 10_000_000)  # a call costs up to some thousands


def labels_of(workflow: str) -> dict[str, str]:
    """By the name of the workflow; one of three has no team."""
    team = TEAMS[zlib.crc32(workflow.encode()) % len(TEAMS)]
    return {"company": "acme", **({"team": team} if team else {})}


def budget_rules(seed: int) -> BudgetRules:
    """Of one history: often none."""
    chance = random.Random(f"budgets {seed}")
    if chance.random() > SHARE:
        return BudgetRules()
    company = PeriodLimits(month=(chance.choice(CALLS_OF_COMPANY), None, None))
    team = PeriodLimits(day=(None, None, chance.choice(MICRO_USD_OF_TEAM)))
    return BudgetRules({"team": {"*": team}, "company": {"acme": company}})


def overspent(rules: BudgetRules, records: Sequence[Record]) -> Iterator[str]:
    """Budgets of which the journal of attempts says more than the limit."""
    calls: Counter[str] = Counter()
    micro_usd: Counter[str] = Counter()
    labels = _labels(records)
    for record in records:
        if record.topic != ATTEMPTS.name:
            continue
        made = json.loads(record.value or b"")
        for label, value in _labels_of(made["workflow_id"], made["request_id"], labels).items():
            calls[f"{label}:{value}"] += made["charged"]["attempts"]
            micro_usd[f"{label}:{value}"] += made["charged"]["micro_usd"]
    for label, by_value in rules.by_label.items():
        for name in [it for it in calls if it.startswith(f"{label}:")]:
            limits = by_value.get("*") or by_value["acme"]
            most_calls, most_money = limits.month[0], limits.day[2]
            if most_calls is not None and calls[name] > most_calls:
                yield f"{name} has made {calls[name]} calls of {most_calls}"
            if most_money is not None and micro_usd[name] > most_money:
                yield f"{name} has spent {micro_usd[name]} of {most_money}"


def announced_twice(records: Sequence[Record]) -> Iterator[str]:
    """Budgets of which more than one event says that they are nearly spent."""
    told: Counter[tuple[str, str]] = Counter()
    for record in records:
        if record.topic == STEPS.name and b'"budget_nearly_spent"' in (record.value or b""):
            body = json.loads(record.value or b"")
            told[body["budget"], body["window"]] += 1
    for (budget, window), times in told.items():
        if times > 1:
            yield f"{budget} of {window} is announced {times} times"


Labels = dict[str, str]


def _labels(records: Sequence[Record]) -> dict[tuple[str, str], Labels]:
    """By workflow and request; what tools ask may have none."""
    found: dict[tuple[str, str], Labels] = {}
    for record in records:
        if record.topic == REQUESTS.name:
            with suppress(ValueError, TypeError, KeyError):
                body = json.loads(record.value or b"")
                key = body["workflow_id"], body["request_id"]
                found[key] = found.get(key) or body.get("labels") or {}
    return found


def _labels_of(workflow: str, request: str, known: Mapping[tuple[str, str], Labels]) -> Labels:
    """A child has those of the run that asked it, and is named by its call."""
    while (workflow, request) not in known and CALL in request:
        request = request.rpartition(CALL)[0]
    return known.get((workflow, request), {})

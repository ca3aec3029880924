"""Who was asked, by the audit records alone: what no crash and no moved lane may change."""

import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from answerbus.topics import ATTEMPTS, REQUESTS
from tests.chaos.audit.record import Record

if TYPE_CHECKING:
    from tests.simulation.history import History

Json = dict[str, Any]
KIND_OF = {"malformed": "invalid"}


def complaints(history: "History", records: Sequence[Record]) -> Iterator[str]:
    """Of plain requests whose budget has room for each profile; a step of a run begins anew."""
    conditions: dict[str, float] = {
        one.kind: one.bound for of in history.world.fallbacks for one in of.on
    }
    is_by_health = not conditions.keys().isdisjoint({"unhealthy", "throttled"})
    for name, attempts in _plain(records).items():
        failed = Counter[str]()
        for attempt in attempts:
            model, failure = attempt["model"], attempt["failure"]
            if model is None:
                continue
            must_be_large = any(failed[kind] >= conditions.get(kind, 1e9) for kind in failed)
            is_large = model["profile"] == "large"
            if must_be_large > is_large or is_large > (must_be_large or is_by_health):
                yield f"attempt {attempt['attempt']} of {name} asked {model['profile']}"
            if is_large != ("because" in model):
                yield f"attempt {attempt['attempt']} of {name} does not say why"
            if failure and attempt["counted"] and not is_large:
                failed[KIND_OF.get(failure["kind"], failure["kind"])] += 1


def _plain(records: Sequence[Record]) -> dict[tuple[str, str], list[Json]]:
    """By workflow and request, in order."""
    asked = [_json(one) for one in records if one.topic == REQUESTS.name]
    special = {one.get("request_id") for one in asked if _is_special(one)}
    found = defaultdict[tuple[str, str], list[Json]](list)
    attempts = [_json(one) for one in records if one.topic == ATTEMPTS.name]
    for one in attempts:
        if one["request_id"] not in special and ".call." not in one["request_id"]:
            found[one["workflow_id"], one["request_id"]].append(one)
    return {name: sorted(of, key=lambda one: int(one["attempt"])) for name, of in found.items()}


def _is_special(body: Json) -> bool:
    return bool(body.get("agent")) or "tokens" in body.get("budget", ())


def _json(record: Record) -> Json:
    try:
        found = json.loads(record.value or b"")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}

"""Budgets of labels under the loads by which others exceeded theirs, as their users reported."""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from answerbus.topics import ATTEMPTS, RUN_TOPICS, TOPICS
from tests.benchmarks.downstream import watching
from tests.benchmarks.figures import Bar, Figure
from tests.benchmarks.latency import Latency
from tests.benchmarks.rig import Rig
from tests.benchmarks.size import Size
from tests.benchmarks.upstream import request_body

NAME = "budgets"
WORKERS, IN_FLIGHT, LATENCY_S = 2, 1_000, 0.5
PRICE = "price = {input_usd = 1000, output_usd = 1000}\n"  # $0.88 for a call of the stub
MICRO_USD = 1_000_000
END_LIMIT_S = 180.0
REFUSED_WITHIN_S = 1.0


@dataclass(frozen=True, slots=True)
class Load:
    """Requests of one label at once, of which `limit` calls or dollars are allowed a day.

    `reported`: how much was used where it was reported, as far as the report says it.
    """

    source: str
    asked: int
    limit: int
    unit: str = "calls"
    reported: float | None = None

    @property
    def case(self) -> str:
        return f"{self.source}: {self.asked} at once"

    @property
    def budget(self) -> str:
        """A table of the settings."""
        return f'[budgets."load:{self.source}"]\n{self.unit} = {{day = {self.limit}}}\n'

    def used(self, attempts: list[dict[str, Any]]) -> float:
        """In its unit."""
        own = [one["charged"] for one in attempts if one["workflow_id"].startswith(self.source)]
        if self.unit == "calls":
            return float(sum(charged["attempts"] for charged in own))
        return float(sum(charged["micro_usd"] for charged in own) / MICRO_USD)


LOADS = (
    Load("pydantic-ai-harness#696", 16, 9, reported=16),
    Load("pi-subagents#1779", 512, 150, reported=512),
    Load("LiteLLM#26672", 100, 30, "usd", reported=99.104445),
    Load("LiteLLM#34732", 100, 20, "usd"),
    Load("LiteLLM#40095", 8, 1),
    Load("LiteLLM#12794", 100, 3),
)


def measure(rig: Rig, _size: Size) -> Iterator[Figure]:
    """All loads at once, each with a budget of its own, and of each a last request afterwards."""
    loads = [load for load in LOADS if rig.wants(load.case)]
    if not loads:
        return
    field = rig.field(topics=(*TOPICS, *RUN_TOPICS))
    rig.begin(Latency("constant", LATENCY_S))
    field.product(
        IN_FLIGHT,
        workers=WORKERS,
        profile=PRICE,
        agents="".join(load.budget for load in loads),
    )
    with watching(field.bus) as seen:
        asked = [_request(load, number) for load in loads for number in range(load.asked)]
        field.upstream.publish_all(asked)
        rig.wait(lambda: len(seen.seen_at) == len(asked), "all terminals", END_LIMIT_S)
        last = [_request(load, load.asked) for load in loads]
        field.upstream.publish_all(last)
        total = len(asked) + len(last)
        rig.wait(lambda: len(seen.seen_at) == total, "the last terminals", END_LIMIT_S)
    field.end()
    attempts = asyncio.run(field.bus.everything(ATTEMPTS))
    for load, request in zip(loads, last, strict=True):
        name = request["request_id"]
        refused_s = seen.seen_at[name] - field.upstream.appended_at[name]
        yield from _figures(load, load.used(attempts), refused_s)


def _figures(load: Load, used: float, refused_s: float) -> Iterator[Figure]:
    parameters = {"workers": WORKERS, "latency_s": LATENCY_S, "price": PRICE.strip()}
    if load.reported is not None:
        more = load.reported - load.limit
        for name, value in (("limit", load.limit), ("used", load.reported), ("over", more)):
            yield Figure(NAME, load.case, "as reported", name, value, load.unit)
    for name, value, unit, bar in (
        ("limit", load.limit, load.unit, None),
        ("used", used, load.unit, None),
        ("over", max(0.0, used - load.limit), load.unit, Bar("=", 0)),
        ("a later one is refused within", refused_s, "s", Bar("<=", REFUSED_WITHIN_S)),
    ):
        yield Figure(NAME, load.case, "product", name, value, unit, bar, parameters)


def _request(load: Load, number: int) -> dict[str, Any]:
    name = f"{load.source}-{number}".replace("#", ".")
    return {**request_body(name, f"{load.source}-{number}"), "labels": {"load": load.source}}

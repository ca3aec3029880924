"""What is charged for requests with one handbook, beside what a provider with a cache bills."""

import asyncio
from collections.abc import Iterator, Sequence
from typing import Any

from answerbus.topics import ATTEMPTS
from tests.benchmarks.billing import Prices
from tests.benchmarks.conservation import account
from tests.benchmarks.downstream import watching
from tests.benchmarks.figures import Bar, Figure
from tests.benchmarks.journal import MARK, MARK_END
from tests.benchmarks.latency import Latency
from tests.benchmarks.rig import Rig
from tests.benchmarks.size import Size
from tests.benchmarks.upstream import request_body

NAME = "cost"
REQUESTS = 1_000
HANDBOOK_BYTES = 20_000
IN_FLIGHT = 32
CACHED_SHARE_MIN = 0.85
END_LIMIT_S = 180.0
PRICES = Prices()
USD_PER_MILLION = (
    f"price = {{input_usd = {PRICES.read}, output_usd = {PRICES.written}, "
    f"cached_usd = {PRICES.cached}}}\n"
)
_PARAGRAPH = "Each dependency is raised to the first release that mends it; majors need a review. "


def measure(rig: Rig, _size: Size) -> Iterator[Figure]:
    """One handbook in front, and questions that differ behind it."""
    case = f"{REQUESTS:,} requests with one handbook of {HANDBOOK_BYTES // 1_000} KB"
    if not rig.wants(case):
        return
    field = rig.field()
    rig.begin(Latency("constant", 0.05), prices=PRICES)
    with watching(field.bus) as seen:
        field.product(IN_FLIGHT, profile=USD_PER_MILLION)
        field.upstream.publish_all(_request(f"{field.bus.prefix}-{n}") for n in range(REQUESTS))
        rig.wait(lambda: len(seen.seen_at) >= REQUESTS, "all terminals", END_LIMIT_S)
    found, stats = account(rig, REQUESTS, seen), rig.stub.stats()
    field.end()
    attempts = asyncio.run(field.bus.everything(ATTEMPTS))
    charged = _sum(attempts, "charged", "micro_usd")
    saved = _sum(attempts, "usage", "cache_saved_micro_usd")
    share = stats["cached_tokens"] / stats["read_tokens"]
    parameters = {"in_flight": IN_FLIGHT, "prices": USD_PER_MILLION.strip()}
    for name, value, unit, bar in (
        ("billed", stats["billed_micro_usd"], "µ$", None),
        ("charged", charged, "µ$", Bar("=", stats["billed_micro_usd"])),
        ("saved by the cache", saved, "µ$", None),
        ("in full, as before", charged + saved, "µ$", None),
        ("cached share of the input", share, "", Bar(">=", CACHED_SHARE_MIN)),
        ("retries", len(attempts) / REQUESTS - 1, "", None),
        ("lost", found.lost, "", Bar("=", 0)),
    ):
        yield Figure(NAME, case, "product", name, value, unit, bar, parameters)


def _request(name: str) -> dict[str, Any]:
    """The mark for the journal stands in the question: what is in front is the same in all."""
    handbook = (_PARAGRAPH * (HANDBOOK_BYTES // len(_PARAGRAPH) + 1))[:HANDBOOK_BYTES]
    question = f"{MARK.decode()}{name}{MARK_END.decode()} Propose one change for service {name}."
    context = {
        "instructions": "Propose one change, as the handbook says.",
        "facts": [{"name": "handbook", "value": handbook}],
        "messages": [{"role": "user", "content": question}],
    }
    return {**request_body(name, name), "context": context, "budget": {"attempts": 5}}


def _sum(attempts: Sequence[dict[str, Any]], part: str, name: str) -> int:
    return sum(attempt[part].get(name) or 0 for attempt in attempts)

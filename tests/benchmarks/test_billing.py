"""What the stub bills: whole blocks of a beginning that it has read before, at their own price."""

import json
from typing import Any

from tests.benchmarks.billing import WRONG, Bill, Prices

RIGHT = "a" * 40  # ten tokens
HANDBOOK = "h" * 8_000


def asked(bill: Bill, question: str, call: bytes = b"r") -> dict[str, Any]:
    body = {"messages": [{"role": "user", "content": HANDBOOK + question}]}
    reply: dict[str, Any] = json.loads(bill.completion(json.dumps(body).encode(), call))
    return reply


def test_a_beginning_is_cached_in_blocks_of_128_tokens() -> None:
    bill = Bill(Prices(wrong_share=0), RIGHT)

    first, second = (asked(bill, "?" * count)["usage"] for count in (40, 80))

    cached = 15 * 128  # of the 2,001 tokens that both begin with
    assert first["prompt_tokens_details"] == {"cached_tokens": 0}
    assert second["prompt_tokens_details"] == {"cached_tokens": cached}
    read = first["prompt_tokens"] + second["prompt_tokens"]
    assert (bill.read, bill.cached) == (read, cached)
    assert bill.micro_usd == (read - cached) * 8 + cached + 2 * 10 * 32


def test_a_part_of_the_first_calls_is_answered_wrongly() -> None:
    bill = Bill(Prices(wrong_share=0.2), RIGHT)

    answers = [
        [asked(bill, "?", f"r-{n}".encode())["choices"][0]["message"]["content"] for _ in range(2)]
        for n in range(500)
    ]

    assert {second for _, second in answers} == {RIGHT}
    assert 0.15 < sum(first == WRONG for first, _ in answers) / 500 < 0.25

"""Marks around untrusted text: in none of the texts, and found in time linear in them."""

import random
import tracemalloc

import pytest

from services.worker.core.attempt.turns import MARK_CHARS, Fence
from tests.cpu_time import cpu_time

SECRET = b"s"


def mark_of(fenced: str) -> str:
    return fenced.split()[1]


def test_a_mark_that_stands_in_another_text_is_not_used_wherever_it_stands_there() -> None:
    plain = mark_of(Fence(SECRET).put("fact", "x"))
    assert len(plain) == MARK_CHARS

    for place in range(MARK_CHARS):
        other = "f" * place + plain + "0" * (MARK_CHARS - place)
        for marks in (1, 1_000):
            fence = Fence(SECRET).around(["x", "beside"], 1).around([other], marks)
            assert mark_of(fence.put("fact", "x")) not in {plain, *other.split()}


@pytest.mark.wide
def test_digits_that_fill_a_request_cost_little_time_and_memory() -> None:
    chance = random.Random(1)
    digits = "".join(chance.choice("0123456789abcdef") for _ in range(500_000))
    pieces = [digits, *(f"fact {n}" for n in range(1000))]

    with cpu_time() as cpu:
        fence = Fence(SECRET).around(pieces, len(pieces))
        fenced = [fence.put("fact", piece) for piece in pieces]
    tracemalloc.start()
    Fence(SECRET).around(pieces, len(pieces))
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert cpu.is_below(0.1)  # it was 0.5 s
    assert most < 32 * len(digits)  # it was 190 times as much
    assert all(mark_of(one) not in digits for one in fenced)

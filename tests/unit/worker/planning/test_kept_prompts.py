"""The last prompts of open runs take no more memory than they may."""

from answerbus.request import Request
from services.worker.core.attempt.turns import shown
from services.worker.planning.kept_prompts import NOTHING_KEPT, KeptPrompt, KeptPrompts
from tests.unit.worker.builders import request


def run_of(number: int) -> Request:
    return request(f"r-{number}")


def of_bytes(size: int) -> KeptPrompt:
    text = [{"role": "user", "content": "x" * size, "trust": "trusted"}]
    asked = request(context={"instructions": "Do it.", "messages": text})
    return KeptPrompt(shown=shown(asked, b""))


def test_beyond_its_bytes_the_run_kept_longest_ago_is_given_up() -> None:
    one = of_bytes(10_000)
    kept = KeptPrompts(bytes_max=3 * one.size)
    for number in (1, 2, 3, 1, 4):
        kept.keep(run_of(number), one)

    assert [number for number in range(1, 5) if kept.of(run_of(number)) is one] == [1, 3, 4]
    assert kept.of(run_of(2)) is NOTHING_KEPT


def test_a_later_prompt_takes_the_place_of_the_last() -> None:
    kept = KeptPrompts(bytes_max=of_bytes(10_000).size)
    for _ in range(10):
        kept.keep(run_of(1), of_bytes(9_000))
    kept.keep(run_of(2), of_bytes(100))

    assert kept.of(run_of(1)) is not NOTHING_KEPT
    assert kept.of(run_of(2)) is not NOTHING_KEPT


def test_one_that_is_larger_than_all_may_be_is_not_kept() -> None:
    kept = KeptPrompts(bytes_max=1_000)
    kept.keep(run_of(1), of_bytes(10_000))

    assert kept.of(run_of(1)) is NOTHING_KEPT

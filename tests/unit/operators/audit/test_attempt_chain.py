"""The chain of an account's attempts: what it costs to follow a long one."""

from pathlib import Path

from answerbus.attempt import Attempt
from answerbus.wire import bytes_digest
from services.operators.audit.attempt_chain import AttemptChain
from tests.cpu_time import cpu_time

EXAMPLE = Path(__file__).parents[4] / "contracts/examples/attempt/retry.json"
COUNT = 50_000


def test_each_attempt_of_a_long_chain_costs_the_same() -> None:
    first = Attempt.model_validate_json(EXAMPLE.read_bytes())
    hashes = [bytes_digest(b"%d" % n) for n in range(COUNT)]
    chain, last = AttemptChain(memory_ms=1e9), None

    with cpu_time() as cpu:
        for number, own in enumerate(hashes, start=1):
            said = {"attempt": number, "hash": own, "previous": last}
            attempt = first.model_copy(update=said)
            assert chain.follow(attempt, 0, was_cut=False, asked_again=False) is None
            last = own
    assert cpu.is_below(3.0)

    again = first.model_copy(update={"attempt": 8, "hash": hashes[7], "previous": hashes[6]})
    assert chain.follow(again, 0, was_cut=False, asked_again=False) == (
        "twice",
        "this very attempt once",
    )

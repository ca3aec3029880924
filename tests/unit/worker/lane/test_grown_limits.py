"""An output limit that grew after a cut, and is beyond what the model can write."""

import asyncio

from answerbus.topics import ATTEMPTS, DEAD_LETTERS, RESULTS
from services.worker.core.attempt.prompt import Prompt
from services.worker.core.attempt.reply import CallFacts, Rejected, Reply, Truncated
from tests.unit.worker.builders import answered
from tests.unit.worker.lane.stage import Stage
from tests.unit.worker.lane.virtual import run
from tests.unit.worker.lane.world import FakeProvider, events


class Model(FakeProvider):
    """Writes `limit` tokens at most, and needs `calls` until its answer is short enough."""

    def __init__(self, limit: int, calls: int) -> None:
        super().__init__()
        self.limit, self.calls_left = limit, calls
        self.asked: list[int] = []

    async def ask(self, prompt: Prompt, *, timeout_s: float) -> Reply:
        await asyncio.sleep(0.1)
        self.asked.append(prompt.max_output_tokens)
        if prompt.max_output_tokens > self.limit:
            return Rejected("request", 400, "invalid_value")
        self.calls_left -= 1
        return Truncated(prompt.max_output_tokens, CallFacts()) if self.calls_left else answered()


def asked_of(model: Model) -> Stage:
    async def story() -> Stage:
        stage = Stage(model)
        await stage.worker.open()
        stage.publish("r-1", budget={"attempts": 2})
        await stage.all_done()
        await stage.worker.drain()
        return stage

    return run(story())


def test_a_limit_that_is_refused_after_it_grew_is_the_profiles_again() -> None:
    model = Model(100, calls=2)
    broker = asked_of(model).broker

    assert model.asked == [100, 200, 100]
    assert len(events(broker, RESULTS)) == 1
    assert [attempt["counted"] for attempt in events(broker, ATTEMPTS)] == [True, False, True]


def test_an_answer_that_stays_too_long_ends_as_cut() -> None:
    model = Model(100, calls=3)
    (letter,) = events(asked_of(model).broker, DEAD_LETTERS)

    assert model.asked == [100, 200, 100]
    assert letter["cause"] == {"kind": "budget_exhausted", "which": "attempts"}
    assert [prior["failure"]["kind"] for prior in letter["prior"]] == ["truncated", "truncated"]


def test_a_request_that_is_refused_within_the_profiles_limit_is_rejected() -> None:
    (letter,) = events(asked_of(Model(50, calls=1)).broker, DEAD_LETTERS)

    assert letter["cause"] == {"kind": "rejected", "status": 400, "code": "invalid_value"}

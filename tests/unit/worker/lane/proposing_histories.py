"""Histories of runs that choose, each from a number: little budget, faults, workers that die."""

from random import Random

from services.worker.core.attempt.prompt import Prompt
from services.worker.core.attempt.reply import Reply
from tests.unit.worker.lane.faulty_histories import bad_reply, end_with_faults
from tests.unit.worker.lane.proposing import ProposingProvider, ProposingStage, check_choice
from tests.unit.worker.lane.world import final_account, terminals

KILLS_APART_S = 0.8


class UnreliableProposers(ProposingProvider):
    """Proposals are slow, wrong, throttled or away, as a number says; selectors name what is not.

    The last attempt of a selector is right: what is proved is that it has one.
    """

    random: Random

    def reply_to(self, prompt: Prompt) -> Reply:
        self.child_s = self.random.uniform(0.01, 0.6)
        if ".call." in prompt.request_id and (found := bad_reply(self.random, 8)) is not None:
            return found
        return super().reply_to(prompt)


async def chosen(limit: int, number: int, seed: int) -> None:
    """No more is spent than there is; where a proposal is left, one of them is the answer."""
    random = Random(f"{limit}/{number}/{seed}")
    stage = ProposingStage(agent={"parallel_max": random.choice([1, 2, 8])}, n=number)
    stage.provider = UnreliableProposers(choose=random.choice)
    stage.provider.random = random
    stage.worker._leave()
    stage.worker = stage.new_worker()
    kills = await end_with_faults(
        stage, random, KILLS_APART_S, budget={"attempts": limit}, ttl_s=600
    )

    check_choice(stage)
    assert final_account(stage.broker)["spent"]["attempts"] <= limit
    assert len(stage.children()) <= min(number, limit - 1)
    ended = [outcome["kind"] for outcome in stage.ended().values()]
    if kills == 0 and not stage.broker.faults and "ok" in ended:
        assert terminals(stage.broker)["r-1"] == "result", "the selector has its step"

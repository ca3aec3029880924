"""Which requests of transactions go astray, and how: drawn from a seed in the order of requests."""

import random

from tests.storms.proxy import PASS, Api, Asked, Kind, Rule, Treatment

HELD_S = (0.05, 0.3, 1.0, 4.0)  # a transaction takes some 0.05 s


def astray(seed: int, share: float) -> Rule:
    """What happens to so many of the requests; ends of transactions are mostly late."""
    chance = random.Random(f"astray {seed}")

    def rule(asked: Asked) -> Treatment:
        if chance.random() > share:
            return PASS
        kinds = [kind for kind in Kind if kind is not Kind.PASS]
        if asked.api is Api.END_TXN:
            kinds += [Kind.HOLD, Kind.AGAIN] * 2
        return Treatment(chance.choice(kinds), chance.choice(HELD_S))

    return rule

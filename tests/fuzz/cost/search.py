"""The search for the costliest input of a target: what costs more is changed further."""

import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from tests.cpu_time import slowness
from tests.fuzz.cost.meter import Cost, cost_of
from tests.fuzz.cost.recipe import Recipe, TooLongError, changed, text_of
from tests.fuzz.cost.targets import Target

KEPT_MAX = 24  # recipes that are changed further
AGAIN = 4  # measurements of what seems to be the costliest
AGAIN_AT_LIMIT = 8  # of what seems to break its budget
TOO_COSTLY = 2.0  # shares of the budget, at which an input breaks it: machines are busy


@dataclass(frozen=True, slots=True)
class Found:
    """An input, and what it took."""

    recipe: Recipe
    cost: Cost
    share: float  # of its budget

    @property
    def is_too_costly(self) -> bool:
        return self.share > TOO_COSTLY


def work_on(target: Target, recipe: Recipe) -> tuple[Callable[[], object], int] | None:
    """The work and the bytes of its input; None if too long, or without meaning to the target."""
    try:
        data = text_of(recipe, target.bytes_max).encode(errors="replace")
    except TooLongError:
        return None
    if len(data) > target.bytes_max or (work := target.work_on(data)) is None:
        return None
    return work, len(data)


def measured(target: Target, recipe: Recipe, times: int = 1) -> Found | None:
    """What it costs, where it is an input of the target."""
    if (found := work_on(target, recipe)) is None:
        return None
    work, input_bytes = found
    cost = cost_of(work, input_bytes, times)
    if cost.share_of(target.budget) > TOO_COSTLY:  # or this machine is slow at the moment
        cost = cost_of(work, input_bytes, AGAIN_AT_LIMIT)
        cost = replace(cost, cpu_s=cost.cpu_s / slowness())
    return Found(recipe, cost, cost.share_of(target.budget))


@dataclass(slots=True)
class Search:
    """Deterministic but for the clock: the same seed begins with the same inputs."""

    target: Target
    chance: random.Random
    inputs: int = 0

    def run(self, seconds: float, on_found: Callable[[Found], None]) -> Found:
        """The costliest; `on_found` hears of each that is costlier than all before."""
        ends, kept = time.monotonic() + seconds, list[Found]()
        for recipe in self._recipes(kept):
            found = measured(self.target, recipe)
            self.inputs += 1
            if found is not None and (not kept or found.share > kept[-1].share * 0.9):
                best = kept[0].share if kept else 0.0
                if found.share > best:
                    found = measured(self.target, recipe, AGAIN) or found
                kept[:] = sorted([*kept, found], key=lambda one: -one.share)[:KEPT_MAX]
                if found.share > best:
                    on_found(found)
            if kept and (time.monotonic() > ends or kept[0].is_too_costly):
                break
        return kept[0]

    def _recipes(self, kept: list[Found]) -> Iterator[Recipe]:
        yield from self.target.seeds
        while True:
            # The costliest are chosen most often.
            others = [one.recipe for one in kept] or [*self.target.seeds]
            recipe = others[min(int(self.chance.expovariate(0.4)), len(others) - 1)]
            for _ in range(self.chance.choice([1, 1, 2, 3])):
                recipe = changed(recipe, others, self.target.atoms, self.chance)
            yield recipe

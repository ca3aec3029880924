"""Judging broken on purpose: a judge that reads answers then seems to go by their position."""

from typing import Any
from unittest import mock

import pytest

from services.operators.adapters import judging as asking
from services.operators.comparisons import judging
from services.operators.comparisons.intervals import Proportion
from tests.providers.test_asking_again import Model
from tests.providers.test_judging import angry, favours_angry, report_of

ASKED = 4
ALL = Proportion(ASKED, ASKED)


def _in_one_order(name: str) -> Any:
    whole = getattr(judging, name)
    return lambda *given, swapped: whole(*given, swapped=False)


@pytest.mark.parametrize("name", ["judge_request", "judged"])
async def test_one_order_alone_makes_a_good_judge_look_bad(name: str) -> None:
    """Shown, or read, as if the new answer always came second."""
    model = Model(angry, judge=favours_angry)
    sound, _ = await report_of(model, *range(ASKED))
    with mock.patch.object(asking, name, _in_one_order(name)):
        broken, _ = await report_of(model, *range(ASKED))

    assert sound is not None
    assert broken is not None
    assert (sound.better, broken.better) == (ALL, Proportion(ASKED // 2, ASKED))

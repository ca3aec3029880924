"""Each rule of calls that go on later, broken on purpose, turns its test red."""

from unittest import mock

import pytest

from answerbus.tools.core.intake import Accept
from answerbus.tools.server import ToolServer
from services.worker.core.run import continuing
from services.worker.core.run.run import ToolCall
from tests.contracts.tools.test_continuing import begun_over_a_kill, passed_on_over_a_kill
from tests.unit.worker.core.run.test_continuing import HISTORIES, answers_in_history


def _has_state(call: ToolCall) -> bool:
    return call.record is not None and call.record.state is not None


def test_an_answer_that_is_delivered_again_is_found() -> None:
    with (
        mock.patch.object(continuing, "is_continued", _has_state),
        pytest.raises(AssertionError),
    ):
        list(map(answers_in_history, range(HISTORIES)))


def test_a_state_that_is_forgotten_is_found() -> None:
    """The call would be made again from its beginning."""
    with (
        mock.patch.object(continuing, "kept", return_value={"deliveries": 0}),
        pytest.raises(AssertionError),
    ):
        list(map(answers_in_history, range(HISTORIES)))


async def test_an_answer_that_is_not_claimed_is_found() -> None:
    with mock.patch.object(Accept, "is_once", property(lambda _: False)):
        assert await passed_on_over_a_kill() == 2


async def test_a_call_that_is_begun_again_after_it_kept_a_state_is_found() -> None:
    with mock.patch.object(ToolServer, "_claim", mock.AsyncMock()):
        assert await begun_over_a_kill() == [(None, None), (None, None)]

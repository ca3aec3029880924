"""What keeps the promises of children, broken on purpose: patches of the running test alone."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any
from unittest import mock

from services.worker.core.budget.account import Account
from services.worker.core.budget.allowance import NOTHING_RESERVED, Allowance
from services.worker.core.request.lane_request import LaneRequest
from services.worker.lane.state import queue
from services.worker.lane.state.lane_state import LaneState
from services.worker.lane.state.open_children import OpenChildren
from tests.mutations.mutations import Mutation


def _joined_later() -> AbstractContextManager[object]:
    """The end of a call goes with the next terminal, and not with that of its own child."""
    joined, kept = LaneState._joined, dict[int, Sequence[Any]]()

    def mutated(self: LaneState, lane_request: LaneRequest, *ended: Any) -> Any:
        before = kept.pop(id(self), [])
        kept[id(self)] = joined(self, lane_request, *ended)
        return before

    return mock.patch.object(LaneState, "_joined", mutated)


def _minimum_ignored() -> AbstractContextManager[object]:
    allowance = OpenChildren.allowance

    def mutated(self: OpenChildren, lane_request: LaneRequest, account: Account) -> Allowance:
        return replace(allowance(self, lane_request, account), reserved_minimum=NOTHING_RESERVED)

    return mock.patch.object(OpenChildren, "allowance", mutated)


def _cap_not_taken_from_the_giver() -> AbstractContextManager[object]:
    def mutated(_: OpenChildren, lane_request: LaneRequest, account: Account) -> int:
        return account.counted_of(lane_request.request.request_id)

    return mock.patch.object(OpenChildren, "used", mutated)


def _child_in_the_chain() -> AbstractContextManager[object]:
    return mock.patch.object(
        queue, "_is_ordered", lambda request: request.policy.ordering == "workflow"
    )


CHILDREN_MUTATIONS = (
    Mutation("a child is joined in a transaction of its own", _joined_later),
    Mutation("the reserved minimum of runs that wait is ignored", _minimum_ignored),
    Mutation("what a child gives away is not taken from its cap", _cap_not_taken_from_the_giver),
    Mutation("a child stands in the chain of its workflow", _child_in_the_chain),
)

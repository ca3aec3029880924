"""The spends of this process: those whose call has begun, and those not used yet."""

from collections.abc import Callable, ItemsView, Iterator, Mapping

from answerbus.request_key import RequestKey
from services.worker.core.budget.account import Spend
from services.worker.core.request.lane_request import LaneRequest


class Calls:
    """Calls in flight by request: they outlive a reopening.

    `unused` are the spends whose call has not begun, also where it is not known whether they are
    committed.
    """

    def __init__(self) -> None:
        self._begun: dict[LaneRequest, Spend] = {}
        self._timeouts_s: dict[Spend, float] = {}
        self._unused: dict[Spend, LaneRequest] = {}

    def __len__(self) -> int:
        return len(self._begun)

    def __iter__(self) -> Iterator[LaneRequest]:
        return iter(self._begun)

    def __contains__(self, lane_request: object) -> bool:
        return lane_request in self._begun

    def items(self) -> ItemsView[LaneRequest, Spend]:
        """The requests and spends of the calls in flight."""
        return self._begun.items()

    @property
    def spends(self) -> set[Spend]:
        """Those of the calls in flight."""
        return set(self._begun.values())

    def requests(self) -> Iterator[RequestKey]:
        return (lane_request.key for lane_request in (*self._begun, *self._unused.values()))

    @property
    def unused(self) -> Mapping[Spend, LaneRequest]:
        """See the class."""
        return self._unused

    def spent(self, lane_request: LaneRequest, spend: Spend) -> None:
        """Its commit is on the way."""
        self._unused[spend] = lane_request

    def began(self, spend: Spend, timeout_s: float) -> None:
        """Its call begins: from here on it is answered for, even if the lane closes."""
        self._begun[self._unused.pop(spend)] = spend
        self._timeouts_s[spend] = timeout_s

    def timeout_s(self, spend: Spend) -> float:
        """How long its call may take; settings may say otherwise by now."""
        return self._timeouts_s[spend]

    def settled(self, lane_request: LaneRequest) -> None:
        """The outcome of its call is recorded."""
        self._timeouts_s.pop(self._begun.pop(lane_request))

    def gone(self, spend: Spend) -> None:
        """It will not be used, and that is written down."""
        del self._unused[spend]

    def failed(self, lane_request: LaneRequest) -> None:
        """A bug ended what was done for it; the next opening settles its spend."""
        if spend := self._begun.pop(lane_request, None):
            del self._timeouts_s[spend]

    def keep(self, is_held: Callable[[Spend], bool]) -> None:
        """Forget the calls whose spend another process has settled."""
        self._begun = {
            lane_request: spend for lane_request, spend in self._begun.items() if is_held(spend)
        }
        self._timeouts_s = {spend: self._timeouts_s[spend] for spend in self._begun.values()}

    def forget_unused(self) -> None:
        self._unused.clear()

    def abandon(self) -> None:
        """The calls in flight cannot be settled here."""
        self._begun.clear()
        self._timeouts_s.clear()

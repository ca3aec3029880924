"""Children of runs: which requests are some, and what the lane says of them."""

from answerbus.agent import Parent
from answerbus.limits import DEPTH_MAX
from answerbus.request import Request
from services.worker.core.run.run import Run


def depth_of(request: Request) -> int:
    """How many runs stand above it."""
    return request.parent.depth if request.parent else 0


def may_ask(above: Request, run: Run | None, request: Request) -> bool:
    """Whether an open request is asked by the run `above`: its call is open, and makes it."""
    parent = request.parent
    if parent is None or run is None or above.workflow_id != request.workflow_id:
        return False
    if depth_of(above) >= DEPTH_MAX or above.account_id != request.account_id:
        return False
    call = run.open_call(parent.call_id)
    return call is not None and call.is_called


def adopted(request: Request, above: Request) -> Request:
    """A request as a child of the run `above`, on its account, whatever else it said of that.

    Who publishes it knows the run and the call; the lane knows all else.
    """
    if request.parent is None:
        raise ValueError("a child names its parent")
    depth = depth_of(above) + 1
    parent = Parent(
        request_id=above.request_id, call_id=request.parent.call_id, depth=depth, floor=depth
    )
    return request.model_copy(update={"parent": parent, "replay": above.replay})

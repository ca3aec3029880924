"""The proof that an operator sent the steps from which a request goes on; pure."""

from datetime import datetime

from answerbus.request import Request
from answerbus.resumed_run import ResumedRun, RunResumed
from services.text.digest import canonical_digest


def run_resumed(request: Request, resumed: ResumedRun, by: str, at: datetime) -> RunResumed:
    """The record that an operator writes beside such a request, in the same transaction."""
    return RunResumed(
        request_id=request.request_id,
        workflow_id=request.workflow_id,
        steps_digest=_digest(resumed),
        by=by,
        at=at,
    )


def proves(event: RunResumed, request: Request) -> bool:
    """Whether it is about this request and these steps: an id may come again with other steps."""
    if (event.workflow_id, event.request_id) != (request.workflow_id, request.request_id):
        return False  # before the digest, which takes time with many steps
    return request.resumed is not None and event.steps_digest == _digest(request.resumed)


def _digest(resumed: ResumedRun) -> str:
    return canonical_digest(resumed.model_dump(mode="json"))

"""The tenant of a request: the value of one of its labels; pure."""

from answerbus.request import Request
from services.worker.core.limits.fair_queue import FairKey

TENANT_LABEL = "tenant"  # by default
NO_TENANT = ""  # of requests without the label


def fair_key(request: Request, label: str) -> FairKey:
    """The queue key of its calls; names are taken whole, so that none is a part of another."""
    return FairKey(request.labels.get(label, NO_TENANT), request.workflow_id)

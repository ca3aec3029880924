"""The tenant of a request: the value of one of its labels; pure."""

from answerbus.request import Request
from services.worker.core.limits.fair_queue import FairKey

TENANT_LABEL = "tenant"  # by default
NO_TENANT = ""  # of requests without the label


def tenant_of(request: Request, label: str) -> str:
    """The tenant as the publisher names it: whole, so that no name is a part of another."""
    return request.labels.get(label, NO_TENANT)


def fair_key(request: Request, label: str) -> FairKey:
    """The queue key of its calls."""
    return FairKey(tenant_of(request, label), request.workflow_id)

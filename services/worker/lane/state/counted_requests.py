"""How many requests a lane counts: of one tenant or workflow no more than its share; pure."""

import sys
from collections import Counter
from dataclasses import dataclass, field

from services.worker.core.limits.fair_queue import FairKey, count_down
from services.worker.core.request.tenant import NO_TENANT, TENANT_LABEL


@dataclass(frozen=True, slots=True)
class CountedShares:
    """The shares, in requests; those without the label have none as a tenant."""

    tenant_label: str = TENANT_LABEL
    tenant_max: int = sys.maxsize
    workflow_max: int = sys.maxsize


@dataclass(slots=True)
class CountedRequests:
    """`total` is the number within the shares."""

    shares: CountedShares
    total: int = 0
    _of_workflow: Counter[FairKey] = field(default_factory=Counter)
    _of_tenant: Counter[str] = field(default_factory=Counter)  # within the shares of workflows

    def add(self, key: FairKey) -> None:
        self._of_workflow[key] += 1
        if self._of_workflow[key] <= self.shares.workflow_max:
            self._of_tenant[key.tenant] += 1
            self.total += self._is_within(key.tenant)

    def remove(self, key: FairKey) -> None:
        """One that was added; the counts are as if it had never been."""
        if self._of_workflow[key] <= self.shares.workflow_max:
            self.total -= self._is_within(key.tenant)
            count_down(self._of_tenant, key.tenant)
        count_down(self._of_workflow, key)

    def _is_within(self, tenant: str) -> bool:
        return tenant == NO_TENANT or self._of_tenant[tenant] <= self.shares.tenant_max

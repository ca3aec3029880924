"""Which calls mend an answer, and which are the next step of a run; pure."""

from collections import OrderedDict

from answerbus.request_key import RequestKey
from services.operators.records.event_summary import AttemptSummary

RUNS_MAX = 20_000  # whose last call is remembered
STEP = "step"  # the outcome of a call that ended a step of a run


class LastSteps:
    """Runs whose last call ended a step: the call after it is no repair."""

    def __init__(self) -> None:
        self._runs: OrderedDict[RequestKey, None] = OrderedDict()

    def is_repair(self, event: AttemptSummary) -> bool:
        """Whether the call follows one of its request that gave nothing to go on with."""
        key = RequestKey.of(event)
        follows_step = key in self._runs
        self._runs.pop(key, None)
        if event.outcome == STEP:
            self._runs[key] = None
            if len(self._runs) > RUNS_MAX:
                self._runs.popitem(last=False)
        return event.attempt > 1 and not follows_step

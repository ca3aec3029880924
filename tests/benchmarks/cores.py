"""Which party used how many cores meanwhile, strangers included: figures need a quiet machine."""

import time

from tests.benchmarks import usage
from tests.benchmarks.rig import Contestant, Rig


class Meter:
    """Counts from when it is made."""

    def __init__(self, rig: Rig, contestant: Contestant) -> None:
        self._rig, self._contestant = rig, contestant
        self._began, self._before = time.time(), self._taken()

    def read(self) -> dict[str, float]:
        """Cores of each party since then."""
        length_s = time.time() - self._began
        after = self._taken()
        used = {name: (after[name] - self._before[name]) / length_s for name in after}
        used["others"] = used.pop("machine") - sum(used.values())
        return used

    def _taken(self) -> dict[str, float]:
        return {
            "contestant": self._contestant.usage().cpu_s,
            "broker": usage.of_session(self._rig.broker.pid).cpu_s,
            "stub": usage.of_session(self._rig.stub.process.pid).cpu_s,
            "upstream": time.process_time(),
            "machine": usage.of_machine_s(),
        }

"""The steady window: what a contestant does once it is under way, and what that costs."""

import time
from dataclasses import dataclass

from tests.benchmarks.arithmetic import Span, in_flight_share
from tests.benchmarks.cores import Meter
from tests.benchmarks.journal import Call, spans
from tests.benchmarks.rig import Contestant, Rig

FIRST_CALL_LIMIT_S = 60.0
SAMPLE_S = 0.5


@dataclass(frozen=True, slots=True)
class Steady:
    """`shares` are cores that each party used in the window."""

    window: Span
    calls: list[Call]
    finished: int
    cpu_s: float
    rss_mib: float
    peak_mib: float
    cores: dict[str, float]

    @property
    def parameters(self) -> dict[str, float]:
        """What a reader needs to judge the figures."""
        return {"window_s": round(self.window.length_s, 1), "finished": self.finished}

    @property
    def per_s(self) -> float:
        return self.finished / self.window.length_s

    @property
    def cpu_ms(self) -> float:
        """CPU time per request finished."""
        return self.cpu_s * 1000 / max(1, self.finished)

    def share_of(self, in_flight: int) -> float:
        """In-flight efficiency."""
        return in_flight_share(spans(self.calls), self.window, in_flight)


def watch(rig: Rig, contestant: Contestant, warmup_s: float, window_s: float) -> Steady:
    """Wait for the first call and then `warmup_s`; look for `window_s`; kill the contestant."""
    rig.wait(lambda: rig.stub.stats()["answered"] > 0, "a call", FIRST_CALL_LIMIT_S)
    time.sleep(warmup_s)
    meter, began = Meter(rig, contestant), time.time()
    rss = 0.0
    while (now := time.time()) < began + window_s:
        contestant.check()
        rss = max(rss, contestant.usage().rss_mib)
        time.sleep(min(SAMPLE_S, began + window_s - now))
    cores, ended = meter.read(), time.time()
    peak = contestant.usage().peak_mib
    contestant.kill()
    rig.wait(lambda: rig.stub.stats()["in_flight"] == 0, "all calls over", FIRST_CALL_LIMIT_S)
    calls = rig.calls()
    window = Span(began, ended)
    return Steady(
        window=window,
        calls=calls,
        finished=sum(began <= call.span.end < ended and call.status == 200 for call in calls),
        cpu_s=cores["contestant"] * window.length_s,
        rss_mib=rss,
        peak_mib=peak,
        cores=cores,
    )

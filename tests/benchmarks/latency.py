"""How long the stub takes for a call: the same for the same call and seed, in any order."""

import math
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from statistics import NormalDist
from typing import Literal, assert_never

QUANTILES = 1 << 14  # a call is given one of as many equally likely latencies
_NORMAL = NormalDist()


@dataclass(frozen=True, slots=True)
class Latency:
    """`median_s` is the constant, or the log-normal's median; `sigma`, `cap_s` are log-normal's."""

    model: Literal["instant", "constant", "log-normal"]
    median_s: float = 1.0
    sigma: float = 0.8
    cap_s: float = 20.0

    @property
    def mean_s(self) -> float:
        """The mean over all quantiles, cap included."""
        return math.fsum(self.table()) / len(self.table())

    def table(self) -> list[float]:
        """Equally likely latencies, in seconds."""
        match self.model:
            case "instant":
                return [0.0]
            case "constant":
                return [self.median_s]
            case "log-normal":
                return [self._quantile((n + 0.5) / QUANTILES) for n in range(QUANTILES)]
            case _:
                assert_never(self.model)

    def _quantile(self, share: float) -> float:
        return min(self.median_s * math.exp(self.sigma * _NORMAL.inv_cdf(share)), self.cap_s)


def drawing(latency: Latency, seed: int) -> Callable[[bytes], float]:
    """The latency of a call, by what names the call."""
    table, salt = latency.table(), zlib.crc32(str(seed).encode())
    return lambda call: table[zlib.crc32(call, salt) % len(table)]

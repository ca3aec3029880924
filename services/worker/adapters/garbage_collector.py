"""Makes Python search rarely for cyclic garbage: that took a third of a busy worker's time."""

import gc

# Net allocations of containers before the young are looked through, and how many such rounds
# before the older ones are. A request leaves hardly any cycle behind, and thousands are held.
THRESHOLDS = (100_000, 20, 100)


def tune_garbage_collector() -> None:
    """Leave out for good what is there now, which is code, and look rarely from here on."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)

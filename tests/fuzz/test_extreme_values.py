"""Records with extreme numbers, times and texts are handled, as any other record is."""

from collections.abc import Callable, Mapping

import pytest

from answerbus.topics import LEDGER, REQUESTS, RETRIES, RUNS, Topic
from tests.fuzz import records, stored
from tests.unit.operators.extreme_examples import EXTREMES, Extreme, extreme_records

CHECKS: Mapping[Topic, Callable[[bytes], None]] = {
    REQUESTS: records.check,
    LEDGER: lambda value: stored.check(b"l" + value),
    RETRIES: lambda value: stored.check(b"r" + value),
    RUNS: lambda value: stored.check(b"u" + value),
}


@pytest.mark.parametrize("extreme", EXTREMES.values(), ids=EXTREMES)
def test_records_with_extreme_values_hold(extreme: Extreme) -> None:
    found = [one for one in extreme_records(extreme) if one.topic in CHECKS]

    assert {one.topic for one in found} == {*CHECKS}
    for one in found:
        assert one.value is not None
        CHECKS[one.topic](one.value)

"""Whatever becomes of single requests on their way to three brokers, transactions are whole."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import pytest

from answerbus.client.transactional_producer import TransactionalProducer
from tests.storms.proxied import ProxiedCluster
from tests.storms.stage import BROKERS, PARTITIONS, staged
from tests.storms.storm import Journal, violations

SEEDS = range(PARTITIONS)
ALL_SEEDS = 200
EARLY = "visible before its commit"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProxiedCluster]:
    with ProxiedCluster(tmp_path_factory.mktemp("storms"), BROKERS) as cluster:
        yield cluster


@pytest.mark.kafka
async def test_requests_that_go_astray_break_no_transaction(
    cluster: ProxiedCluster, tmp_path: Path
) -> None:
    async with staged(cluster, "storm", tmp_path) as stage:
        found = await stage.play(SEEDS)

        assert not any(found.values()), found
        assert {name.partition(" ")[2] for name in stage.way_in.treated} >= {
            "HOLD",
            "AGAIN",
            "DROP",
        }


@pytest.mark.kafka
@pytest.mark.long
async def test_without_new_epochs_they_break_some(cluster: ProxiedCluster, tmp_path: Path) -> None:
    never = mock.PropertyMock(return_value=False)
    with mock.patch.object(TransactionalProducer, "unanswered", never):
        async with staged(cluster, "unmended", tmp_path) as stage:
            # Whether a late request meets an open transaction is a matter of milliseconds.
            for first in range(0, ALL_SEEDS, PARTITIONS):
                found = await stage.play(range(first, first + PARTITIONS))
                if any(EARLY in complaint for those in found.values() for complaint in those):
                    return

    pytest.fail(f"{ALL_SEEDS} storms broke no transaction")


@pytest.mark.kafka
@pytest.mark.long
async def test_two_hundred_storms_break_no_transaction(
    cluster: ProxiedCluster, tmp_path: Path
) -> None:
    async with staged(cluster, "long", tmp_path) as stage:
        for first in range(0, ALL_SEEDS, PARTITIONS):
            found = await stage.play(range(first, first + PARTITIONS))

            assert not any(found.values()), found


def test_the_auditor_finds_what_is_not_whole() -> None:
    ledger, results = ("ledger", 0), ("results", 1)
    places = frozenset({ledger, results})
    tokens = ("1.0.spend.1", "1.0.end.1", "1.1.spend.1", "1.1.end.1", "1.1.end.2")
    journal = Journal(
        places=dict.fromkeys(tokens, places),
        acknowledged={"1.0.spend.1", "1.1.spend.1", "1.1.end.2"},
        given_up={"1.1.end.1"},
        early={"1.0.end.1"},
        calls=Counter({"1.0": 2, "1.1": 1}),
    )
    found = {
        "1.0.spend.1": Counter([ledger]),
        "1.0.end.1": Counter(places),
        "1.1.end.1": Counter(places),
        "1.1.end.2": Counter([*places, ledger]),
        "1.2.end.1": Counter(places),
    }

    reported = violations(journal, found)

    about = {complaint.partition(":")[0] for complaint in reported}
    assert about == {*tokens, "1.2.end.1", "1.0", "1.1"}
    assert "1.0.spend.1: {('ledger', 0): 1} visible, of [('ledger', 0), ('results', 1)]" in reported
    assert f"1.0.end.1: {EARLY}" in reported
    assert "1.1.spend.1: acknowledged and not visible" in reported
    assert "1.1.end.1: was not there, and is visible by now" in reported
    assert "1.2.end.1: was never written" in reported
    assert {"1.1: 2 ends", "1.0: 2 calls, fewer spends"} <= set(reported)

"""The table of rights says what the table of topics says, and no role has more than it needs."""

import pytest

from answerbus.topics import (
    APPROVALS,
    CONTROLS,
    EVERY_TOPIC,
    LEDGER,
    REQUESTS,
    RETRIES,
    RUN_TOPICS,
    RUNS,
    STEPS,
    TOPICS,
    Party,
)
from services.kafka.planning.rights import ROLES, ResourceNames, Right, Role, rights_of

NAMES = ResourceNames("acme", "acme.worker", "billing", "orders")
PARTIES: dict[Role, Party] = {"worker": "worker", "publisher": "upstream", "console": "replay"}


def may(role: Role, operation: str, resource: str = "topic") -> set[str]:
    found = rights_of(role, NAMES)
    return {it.name for it in found if (it.operation, it.resource) == (operation, resource)}


@pytest.mark.parametrize(("role", "party"), PARTIES.items())
def test_a_role_writes_what_the_table_of_topics_says(role: Role, party: Party) -> None:
    topics = {topic.full_name("acme") for topic in TOPICS}

    assert may(role, "Write") & topics == {
        topic.full_name("acme") for topic in TOPICS if party in topic.writers
    }


def test_a_worker_reads_what_the_table_of_topics_says() -> None:
    own = {it.full_name("acme") for it in EVERY_TOPIC if "worker" in it.readers}

    assert may("worker", "Read") == own - {"acme.toolsets.{toolset}.v1"} | {"acme.toolsets."}


def test_a_worker_writes_what_runs_need_and_calls_the_tools_of_any_toolset() -> None:
    written = {it.full_name("acme") for it in (*TOPICS, *RUN_TOPICS) if "worker" in it.writers}

    assert may("worker", "Write") == written | {"acme.tools."}


def test_a_tool_server_reads_its_own_calls_and_can_approve_nothing() -> None:
    assert may("tools", "Read") == {"acme.tools.orders.v1"}
    assert may("tools", "Write") == {"acme.tool-results.v1", "acme.toolsets.orders.v1"}


def test_an_app_reads_what_the_table_of_topics_says_and_tells_of_retries_if_it_may() -> None:
    downstream = {topic.full_name("acme") for topic in TOPICS if "downstream" in topic.readers}

    assert downstream < may("app", "Read")
    assert may("app", "Read") - downstream == {
        "acme.dead-letters.v1",
        "acme.steps.v1",
        RETRIES.full_name("acme"),
    }


def test_a_shadow_writes_what_no_worker_and_no_client_reads() -> None:
    read = {it.full_name("acme") for it in EVERY_TOPIC if {"worker", "downstream"} & {*it.readers}}

    assert may("shadow", "Write") == {"acme.comparisons.v1"}
    assert not may("shadow", "Write") & read
    assert may("shadow", "Write", "transactional_id") == may("shadow", "Read", "group") == set()


def test_operators_alone_approve() -> None:
    """Who asks for a call, and who runs it, must not be the one who approves it."""
    approving = {role for role in ROLES if APPROVALS.full_name("acme") in may(role, "Write")}

    assert approving == {"operator", "console"}


def test_people_and_apps_cancel_and_no_tool_server() -> None:
    speaking = {role for role in ROLES if CONTROLS.full_name("acme") in may(role, "Write")}
    reading = {role for role in ROLES if STEPS.full_name("acme") in may(role, "Read")}

    assert speaking == {"app", "operator", "console"}
    assert reading == {"app", "operator", "console", "auditor"}


def test_an_admin_makes_all_topics_and_those_of_each_toolset() -> None:
    """Those of toolsets keep their number of partitions."""
    lanes = {it.full_name("acme") for it in (*TOPICS, *RUN_TOPICS)}
    of_tools = {"acme.toolsets.", "acme.tools."}

    assert may("admin", "Alter") == lanes
    assert may("admin", "Describe") == of_tools
    assert may("admin", "Create") == may("admin", "AlterConfigs") == lanes | of_tools


def test_private_topics_are_written_by_workers_alone() -> None:
    private = {LEDGER.full_name("acme"), RETRIES.full_name("acme")}

    assert {role for role in ROLES if private & may(role, "Write")} == {"worker"}


def test_operators_read_all_that_may_keep_a_lane_shut() -> None:
    """Else `lanes show` would find no record that cannot be read, and say that all is well."""
    private = {topic.full_name("acme") for topic in (LEDGER, RETRIES, RUNS)}

    assert {role for role in ROLES if private <= may(role, "Read")} == {
        *("worker", "operator", "console"),
    }


def test_only_workers_can_fence_a_lane() -> None:
    """A prefix is what could do it: a replay has one id, which is none of a lane."""
    ids = {role: may(role, "Write", "transactional_id") for role in ROLES}
    prefixes = {
        (role, right.name) for role in ROLES for right in rights_of(role, NAMES) if right.is_prefix
    }

    assert {role: found for role, found in ids.items() if found} == {
        "worker": {"acme.lane."},
        "operator": {"acme.replay"},
        "console": {"acme.replay"},
    }
    assert prefixes == {
        ("worker", "acme.lane."),
        ("worker", "acme.tools."),
        ("worker", "acme.toolsets."),
        ("operator", "acme.toolsets."),
        ("admin", "acme.tools."),
        ("admin", "acme.toolsets."),
        ("console", "acme.tools."),  # which it reads, and whose groups it describes
        ("console", "acme.toolsets."),
    }


def test_who_may_spend_is_who_may_write_requests() -> None:
    spenders = {role for role in ROLES if REQUESTS.full_name("acme") in may(role, "Write")}

    assert spenders == {"publisher", "app", "worker", "operator", "console"}


@pytest.mark.parametrize("role", ROLES)
def test_a_right_stands_once(role: Role) -> None:
    rows = [(right.resource, right.name, right.operation) for right in rights_of(role, NAMES)]

    assert rows
    assert len(rows) == len(set(rows))


def test_what_a_right_is_called() -> None:
    lane = Right("transactional_id", "acme.lane.", "Write", "opens lanes", is_prefix=True)

    assert str(lane) == "Write on the transactional ids acme.lane.*"
    assert str(Right("cluster", "kafka-cluster", "Describe", "")) == "Describe on the cluster"
    assert str(Right("group", "billing", "Read", "")) == "Read on the group billing"

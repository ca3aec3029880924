"""What the doctor says of rights and of a transaction that it tried, without a broker."""

from services.commands.doctor.findings.facts import Finding
from services.commands.doctor.findings.judge import TrialFacts, rights_findings, trial_finding
from services.kafka.planning.rights import ResourceNames, rights_of

NAMES = ResourceNames("acme", "acme.worker", "billing")
APP = rights_of("app", NAMES)


def test_all_rights_are_there() -> None:
    held = dict.fromkeys(APP, True)

    assert list(rights_findings("app", held)) == [
        Finding("rights", "ok", "all that the role app needs, 8 of 8")
    ]


def test_each_missing_right_is_named_and_one_that_may_be_missing_is_no_fault() -> None:
    missing = {right: right.operation != "Read" for right in APP if right.resource == "topic"}

    found = list(rights_findings("app", missing))

    assert [one.verdict for one in found] == ["wrong", "wrong", "wrong", "warning", "warning"]
    assert found[0].said == (
        "no right to Read on the topic acme.results.v1, which the role app needs (reads outcomes): "
        "grant it, `answerbus topics acls --role app` prints all"
    )


def test_the_rights_of_a_tool_server_are_those_of_its_toolset() -> None:
    names = ResourceNames("acme", "acme.worker", "", toolset="orders")
    held = dict.fromkeys(rights_of("tools", names)[:1], False)

    (found,) = rights_findings("tools", held, "orders")

    assert "Read on the topic acme.tools.orders.v1" in found.said
    assert found.said.endswith("`answerbus topics acls --role tools --toolset orders` prints all")


def test_what_the_broker_does_not_say_is_no_answer() -> None:
    (found,) = rights_findings("app", dict.fromkeys(APP[:1], None))

    assert found.verdict == "warning"
    assert "Write on the topic acme.requests.v1" in found.said
    assert "cannot see whether" in found.said


def test_a_right_that_hides_the_others_of_its_topic_is_reported_alone() -> None:
    admin = rights_of("admin", NAMES)[:3]
    held = dict(zip(admin, (None, False, None), strict=True))

    assert [finding.said.split(",")[0] for finding in rights_findings("admin", held)] == [
        "no right to Alter on the topic acme.requests.v1"
    ]


def test_a_transaction_that_holds_and_two_that_do_not() -> None:
    def verdict(*, has_brokers_time: bool, was_seen: bool) -> str:
        return trial_finding(TrialFacts(has_brokers_time, was_seen)).verdict

    assert verdict(has_brokers_time=True, was_seen=False) == "ok"
    assert verdict(has_brokers_time=False, was_seen=False) == "wrong"
    assert verdict(has_brokers_time=True, was_seen=True) == "wrong"

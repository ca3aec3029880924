"""What is to be done about topics, decided without a broker."""

import pytest

from answerbus.topics import LEDGER, RESULTS, RETRIES, TOPICS
from services.topics.plan import Change, Create, Difference, Found, Keep, Refused, plan

AS_IT_SHOULD_BE = {topic: Found(12, topic.settings(), topic.settings()) for topic in TOPICS}


def test_on_an_empty_broker_all_are_created() -> None:
    assert plan({}, 12) == tuple(Create(topic) for topic in TOPICS)


def test_what_is_as_it_should_be_is_kept() -> None:
    assert plan(AS_IT_SHOULD_BE, 12) == tuple(Keep(topic) for topic in TOPICS)


def test_only_what_is_missing_is_created() -> None:
    found = {topic: there for topic, there in AS_IT_SHOULD_BE.items() if topic is not LEDGER}

    assert plan(found, 12) == tuple(
        Create(topic) if topic is LEDGER else Keep(topic) for topic in TOPICS
    )


def test_settings_that_differ_are_named_and_all_own_ones_said_again() -> None:
    """Kafka's call replaces them all."""
    wanted = RESULTS.settings()
    own = {"retention.ms": "1000", "segment.ms": "600000"}
    found = Found(12, {**wanted, "retention.ms": "1000", "max.message.bytes": "100"}, own)

    steps = plan({**AS_IT_SHOULD_BE, RESULTS: found}, 12)

    assert steps == tuple(
        Change(
            topic,
            (
                Difference("retention.ms", "1000", "604800000"),
                Difference("max.message.bytes", "100", "1048588"),
            ),
            {**wanted, "segment.ms": "600000"},
        )
        if topic is RESULTS
        else Keep(topic)
        for topic in TOPICS
    )


def test_a_setting_in_force_by_the_brokers_default_is_good_enough() -> None:
    """What counts is the value, not who set it."""
    assert plan({**AS_IT_SHOULD_BE, RESULTS: Found(12, RESULTS.settings())}, 12) == tuple(
        Keep(topic) for topic in TOPICS
    )


def test_a_setting_that_the_broker_does_not_tell_is_set() -> None:
    steps = plan({**AS_IT_SHOULD_BE, RETRIES: Found(12, {})}, 12)

    assert not isinstance(steps, Refused)
    change = steps[TOPICS.index(RETRIES)]
    assert isinstance(change, Change)
    assert {(diff.name, diff.found) for diff in change.differences} == {
        (name, None) for name in RETRIES.settings()
    }


@pytest.mark.parametrize("partitions", [3, 12])
def test_topics_of_different_sizes_are_refused(partitions: int) -> None:
    found = {RESULTS: Found(12, {}), RETRIES: Found(3, {})}

    assert plan(found, partitions) == Refused(
        "The topics differ in their number of partitions (results 12, retries 3) and all need the "
        "same: delete the odd ones, or choose another `kafka.topic_prefix`."
    )


def test_another_size_than_the_setting_is_refused() -> None:
    assert plan(AS_IT_SHOULD_BE, 24) == Refused(
        "The topics have 12 partitions and `kafka.partitions` is 24: set it to 12, or choose "
        "another `kafka.topic_prefix`, since workflows would move."
    )

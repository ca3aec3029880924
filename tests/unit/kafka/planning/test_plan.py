"""What is to be done about topics, decided without a broker."""

import pytest

from answerbus.partition import Layout
from answerbus.topics import (
    LEDGER,
    REQUESTS,
    RESULTS,
    RETRIES,
    RUN_TOPICS,
    TOPICS,
    Topic,
    tool_calls,
)
from services.kafka.planning.plan import (
    Create,
    Difference,
    Found,
    Grow,
    Keep,
    Refused,
    TopicChange,
    beyond,
    needed,
    plan,
    unusable,
)

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
        TopicChange(
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


@pytest.mark.parametrize("kept_ms", ["604800001", "-1"], ids=["a while longer", "for ever"])
def test_what_operators_keep_for_longer_stays_so(kept_ms: str) -> None:
    """As docs/evidence.md asks of attempts: to shorten it again would delete them."""
    longer = {**RESULTS.settings(), "retention.ms": kept_ms}
    found = {**AS_IT_SHOULD_BE, RESULTS: Found(12, longer, longer)}
    assert plan(found, 12) == tuple(Keep(topic) for topic in TOPICS)

    other = {**longer, "max.message.bytes": "100"}
    steps = plan({**found, RESULTS: Found(12, other, other)}, 12)
    assert TopicChange(RESULTS, (Difference("max.message.bytes", "100", "1048588"),), longer) in (
        steps if not isinstance(steps, Refused) else ()
    )


@pytest.mark.parametrize("topic", [REQUESTS, LEDGER], ids=lambda topic: str(topic.name))
def test_what_workers_read_is_kept_for_just_as_long_as_they_count_on(topic: Topic) -> None:
    longer = {**topic.settings(), "retention.ms": "-1"}
    steps = plan({**AS_IT_SHOULD_BE, topic: Found(12, longer, longer)}, 12)

    assert not isinstance(steps, Refused)
    assert isinstance(steps[TOPICS.index(topic)], TopicChange)


def test_a_setting_in_force_by_the_brokers_default_is_good_enough() -> None:
    """What counts is the value, not who set it."""
    assert plan({**AS_IT_SHOULD_BE, RESULTS: Found(12, RESULTS.settings())}, 12) == tuple(
        Keep(topic) for topic in TOPICS
    )


def test_a_setting_that_the_broker_does_not_tell_is_set() -> None:
    steps = plan({**AS_IT_SHOULD_BE, RETRIES: Found(12, {})}, 12)

    assert not isinstance(steps, Refused)
    change = steps[TOPICS.index(RETRIES)]
    assert isinstance(change, TopicChange)
    assert {(diff.name, diff.found) for diff in change.differences} == {
        (name, None) for name in RETRIES.settings()
    }


@pytest.mark.parametrize("in_use", [None, 12])
def test_more_partitions_than_are_used_do_no_harm(in_use: int | None) -> None:
    found = {**AS_IT_SHOULD_BE, RESULTS: Found(16, RESULTS.settings(), RESULTS.settings())}

    assert plan(found, 12, in_use) == tuple(Keep(topic) for topic in TOPICS)
    assert beyond(found, 12) == (
        "some topics have more partitions (results 16) than the 12 of this deployment: the added "
        "ones are not used; `answerbus topics move` changes the number"
    )


def test_a_topic_with_fewer_partitions_than_are_used_is_given_more() -> None:
    """Deleted and made again: it would be no remedy, since it may hold something by now."""
    found = {**AS_IT_SHOULD_BE, RETRIES: Found(3, RETRIES.settings())}

    assert plan(found, 12, 12) == (
        Grow(RETRIES, 3),
        *(Keep(topic) for topic in TOPICS if topic is not RETRIES),
    )
    advice = unusable(found, Layout(12), "answerbus")
    assert advice is not None
    assert "`answerbus topics apply` with `kafka.partitions` 12 gives it the missing" in advice


@pytest.mark.parametrize(("setting", "in_use"), [(24, None), (24, 12), (16, 12)])
def test_another_size_than_the_setting_is_refused(setting: int, in_use: int | None) -> None:
    assert plan(AS_IT_SHOULD_BE, setting, in_use) == Refused(
        f"The topics have 12 partitions and `kafka.partitions` is {setting}: set it to 12, or "
        "change the number with `answerbus topics move`, since workflows move."
    )


def test_topics_that_were_all_enlarged_are_used_as_before() -> None:
    assert plan(AS_IT_SHOULD_BE, 8, 8) == tuple(Keep(topic) for topic in TOPICS)


def test_a_move_that_was_cut_short_keeps_workers_away() -> None:
    assert unusable(AS_IT_SHOULD_BE, Layout(12, moving_to=16), "answerbus") == (
        "A move from 12 to 16 partitions has begun and has not ended: run `answerbus topics move "
        "--partitions 16` again, or with 12 to go back."
    )


def test_agents_need_the_topics_of_runs_and_those_of_their_tools() -> None:
    wanted = needed(("orders.get", "orders.pay", "echo.echo"), has_agents=True)

    names = [topic.name for topic in wanted[len(TOPICS) :]]
    assert names == [
        *(topic.name for topic in RUN_TOPICS),
        "tools.orders",
        "toolsets.orders",
        "tools.echo",
        "toolsets.echo",
    ]
    assert needed((), has_agents=True) == (*TOPICS, *RUN_TOPICS)
    assert needed((), has_agents=False) == TOPICS


def test_the_number_of_a_tools_topic_tells_nothing_of_lanes() -> None:
    calls = tool_calls("orders")
    there = {topic: Found(12, topic.settings()) for topic in TOPICS}
    there[calls] = Found(1, calls.settings())

    steps = plan(there, 12, None, (*TOPICS, calls))
    assert not isinstance(steps, Refused)
    assert all(isinstance(step, Keep) for step in steps)
    assert beyond({**there, calls: Found(24, calls.settings())}, 12) is None

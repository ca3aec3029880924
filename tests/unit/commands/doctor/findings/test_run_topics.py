"""The doctor names each topic of agents and tools that is missing."""

from dataclasses import replace

from answerbus.partition import Layout
from answerbus.topics import CONTROLS, RUN_TOPICS, STEPS, TOPICS, Topic, tool_calls, toolset_cards
from services.commands.doctor.findings.judge import run_topics_findings
from services.kafka.planning.plan import needed
from services.settings.settings import KafkaSettings
from tests.unit.commands.doctor.findings.test_judge import SETTINGS, WELL, findings_of, found

WANTED = needed(("orders.get", "echo.echo"), has_agents=True)[len(TOPICS) :]


def told_without(*missing: Topic, partitions: int = 12) -> tuple[str, str]:
    topics = {topic: found(topic) for topic in (*TOPICS, *WANTED) if topic not in missing}
    look = replace(WELL, topics=topics, layout=Layout(partitions), run_topics=WANTED)
    reported = findings_of(look, KafkaSettings(partitions=partitions))
    assert reported["topics"][0] == "ok"
    return reported["run topics"]


def test_all_are_there() -> None:
    assert told_without() == ("ok", "11 topics of runs, with calls of orders, echo")


def test_each_that_is_missing_is_named() -> None:
    assert told_without(STEPS, CONTROLS, tool_calls("orders")) == (
        "wrong",
        (
            "answerbus.controls.v1, answerbus.steps.v1, answerbus.tools.orders.v1 are missing, so "
            "that no agent can work, and no request can be cancelled: run `answerbus topics apply`"
        ),
    )


def test_topics_of_tools_keep_only_their_tools_from_being_called() -> None:
    assert told_without(tool_calls("orders")) == (
        "wrong",
        (
            "answerbus.tools.orders.v1 is missing, so that no agent can call a tool of orders: "
            "run `answerbus topics apply`"
        ),
    )


def test_one_that_is_kept_otherwise_or_too_short() -> None:
    topics = {topic: found(topic) for topic in (*TOPICS, *WANTED)}
    topics[STEPS] = found(STEPS, {"cleanup.policy": "compact"})
    topics[CONTROLS] = replace(found(CONTROLS), partitions=3)
    look = replace(WELL, topics=topics, layout=Layout(12), run_topics=WANTED)

    reported = findings_of(look)

    assert reported["topics"][0] == "ok"
    assert reported["run topics"] == (
        "wrong",
        (
            "answerbus.controls.v1 has 3 partitions, fewer than are in use; cleanup.policy of "
            "answerbus.steps.v1 is compact and should be delete: run `answerbus topics apply`"
        ),
    )


def test_without_agents_nothing_is_said() -> None:
    assert list(run_topics_findings(replace(WELL, layout=Layout(12)), SETTINGS)) == []
    assert list(run_topics_findings(replace(WELL, run_topics=WANTED), SETTINGS)) == []
    assert set(RUN_TOPICS) < set(WANTED)
    assert toolset_cards("orders") in WANTED

"""Judges whether the topics of agents and tools are there; pure."""

from collections.abc import Iterator, Sequence

from answerbus.topics import Topic, card_owner, toolset_of
from services.doctor.findings.facts import BrokerFacts
from services.doctor.findings.finding import Finding
from services.settings.settings import KafkaSettings
from services.topics.planning.plan import Change, Create, Grow, Refused, plan

APPLY = "run `answerbus topics apply`"
ABOUT = "run topics"


def run_topics_findings(facts: BrokerFacts, settings: KafkaSettings) -> Iterator[Finding]:
    """One, if anything here needs them and the topics of requests are there; each is named."""
    wanted, prefix = facts.run_topics, settings.topic_prefix
    if facts.layout is None or not wanted:
        return
    found = {topic: there for topic, there in facts.topics.items() if topic in wanted}
    steps = plan(found, facts.layout.partitions, facts.layout.partitions, wanted)
    if isinstance(steps, Refused):
        yield Finding(ABOUT, "wrong", steps.reason)
        return
    missing = [step.topic for step in steps if isinstance(step, Create)]
    faults = [_missing(missing, prefix)] if missing else []
    faults += [
        text
        for step in steps
        if isinstance(step, Grow | Change)
        for text in faults_of(step, step.topic.full_name(prefix))
    ]
    if faults:
        yield Finding(ABOUT, "wrong", f"{'; '.join(faults)}: {APPLY}")
        return
    toolsets = ", ".join(filter(None, map(toolset_of, wanted)))
    of_tools = f", with calls of {toolsets}" if toolsets else ""
    yield Finding(ABOUT, "ok", f"{len(wanted)} topics of runs{of_tools}")


def _missing(topics: Sequence[Topic], prefix: str) -> str:
    names = ", ".join(topic.full_name(prefix) for topic in topics)
    owners = [toolset_of(topic) or card_owner(topic) for topic in topics]
    toolsets = dict.fromkeys(filter(None, owners))
    result = (
        f"no agent can call a tool of {', '.join(toolsets)}"
        if all(owners)
        else "no agent can work, and no request can be cancelled"
    )
    return f"{names} {'is' if len(topics) == 1 else 'are'} missing, so that {result}"


def faults_of(step: Create | Grow | Change, name: str) -> Iterator[str]:
    """What is wrong with one topic."""
    if isinstance(step, Create):
        yield f"{name} is missing"
        return
    if isinstance(step, Grow):
        yield f"{name} has {step.found} partitions, fewer than are in use"
        return
    for diff in step.differences:
        if diff.found is None:
            continue  # no right to see it, which is told of once
        yield f"{diff.name} of {name} is {diff.found} and should be {diff.wanted}"

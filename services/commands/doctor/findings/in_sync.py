"""How many copies hold what is acknowledged, of our topics and of Kafka's own; pure."""

from collections.abc import Mapping

from answerbus.topics import Topic
from services.commands.doctor.findings.facts import Cluster, Finding, Verdict
from services.kafka.planning.plan import Found

IN_SYNC_MIN = 2
SETTING = "min.insync.replicas"


def in_sync_finding(cluster: Cluster, topics: Mapping[Topic, Found], short: Verdict) -> Finding:
    """`short` is said of our topics; of Kafka's own as far as their settings can be seen."""
    ours = {topic.name: int(found.in_force.get(SETTING, 1)) for topic, found in topics.items()}
    needed = {**ours, **cluster.internal_in_sync}
    copies = {topic.name: found.replicas for topic, found in topics.items()}
    copies |= cluster.internal_replicas
    in_sync = min(ours.values())
    if in_sync < IN_SYNC_MIN:
        text = (
            f"{SETTING} is {in_sync}: a write is acknowledged when {in_sync} broker has "
            f"it, and is lost with that broker; set it to {IN_SYNC_MIN}, with 3 brokers or more"
        )
        return Finding("in sync", short, text)
    if all_needed := [name for name, count in needed.items() if 1 < copies.get(name, 0) <= count]:
        text = (
            f"{SETTING} of {', '.join(all_needed)} asks for all copies: while a broker "
            "with one of them is away, nothing is written there and lanes stand still; set it to "
            f"{IN_SYNC_MIN}, with 3 copies or more"
        )
        return Finding("in sync", "warning", text)
    if few := [name for name, count in needed.items() if count < IN_SYNC_MIN]:
        text = (
            f"{SETTING} of {', '.join(few)} is 1: transactions and positions that are acknowledged "
            f"when one broker has them are lost with that broker; set it to {IN_SYNC_MIN} there, "
            "with 3 copies or more, such as with `kafka-configs.sh --alter --entity-type topics`"
        )
        return Finding("in sync", "warning", text)
    return Finding("in sync", "ok", f"{SETTING} is {in_sync}")

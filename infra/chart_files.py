"""Writes the files of chart and console that are generated from other sources: `make chart`."""

from collections.abc import Mapping
from pathlib import Path

import yaml

from answerbus.topics import RUN_TOPICS, TOPICS, Topic, tool_calls, toolset_cards
from infra.runbook_pages import runbook_pages
from services.kafka.planning.acl_formats import Grantee, rendered
from services.kafka.planning.rights import ROLES, ResourceNames, Role, rights_of

CHART = Path("infra/helm/answerbus")
# What the chart puts names in the place of.
_NAMES = ResourceNames("@PREFIX@", "@GROUP@", "@APP@", toolset="@TOOLSET@")


def chart_files() -> Mapping[Path, str]:
    """Each with its text; a chart can read nothing outside of its own folder."""
    return {
        CHART / "files/alerts.yml": Path("infra/prometheus/alerts.yml").read_text(encoding="utf-8"),
        CHART / "files/dashboard.json": Path("infra/grafana/answerbus.json").read_text(
            encoding="utf-8"
        ),
        CHART / "files/topics.yaml": _topics(),
        CHART / "files/rights.yaml": yaml.safe_dump({role: _rights(role) for role in ROLES}),
    }


def _topics() -> str:
    """Those of each deployment, those of runs, and those of each toolset."""
    groups = {
        "topics": TOPICS,
        "runs": RUN_TOPICS,
        "toolset": (tool_calls(_NAMES.toolset), toolset_cards(_NAMES.toolset)),
    }
    made = {group: [_topic(topic) for topic in topics] for group, topics in groups.items()}
    return yaml.safe_dump(made, sort_keys=False)


def _topic(topic: Topic) -> Mapping[str, object]:
    own = {} if topic.partitions is None else {"partitions": topic.partitions}
    return {"name": topic.name, **own, "config": dict(topic.settings())}


def _rights(role: Role) -> object:
    """As Strimzi's KafkaUser has them."""
    user = rendered("strimzi", Grantee(role, role), rights_of(role, _NAMES))
    return yaml.safe_load(user)["spec"]["authorization"]["acls"]


if __name__ == "__main__":
    for path, text in {**chart_files(), **runbook_pages()}.items():
        path.write_text(text, encoding="utf-8")

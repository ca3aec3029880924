"""Topics and users that the chart has Strimzi make, and the topics of runs."""

import re
from typing import Any

import pytest
import yaml

from services.kafka.planning.acl_formats import Grantee
from services.kafka.planning.acl_formats import rendered as rendered_rights
from services.kafka.planning.plan import needed
from services.kafka.planning.rights import ResourceNames, Role, rights_of
from tests.infra.chart import NAMESPACE, Manifest, RenderError, changed, of_kind, pod, render


def test_the_topics_of_strimzi_are_all_of_ours_and_have_names_that_kubernetes_takes() -> None:
    topics = {one["spec"]["topicName"]: one for one in of_kind("strimzi", "KafkaTopic")}
    wanted = needed(["orders.get"], has_agents=True)

    assert topics.keys() == {topic.full_name("Acme_eu") for topic in wanted}
    for topic in wanted:
        made = topics[topic.full_name("Acme_eu")]
        assert re.fullmatch(r"[a-z0-9.-]+", made["metadata"]["name"])
        assert made["spec"]["partitions"] == (topic.partitions or 48)
        assert made["spec"]["config"] == topic.settings()


def test_resources_of_strimzi_stand_where_its_operators_look() -> None:
    elsewhere = [*render(changed("strimzi", strimzi={"namespace": "kafka"}))]

    for kind in ("KafkaTopic", "KafkaUser"):
        here = {one["metadata"]["namespace"] for one in of_kind("strimzi", kind)}
        there = {one["metadata"]["namespace"] for one in elsewhere if one["kind"] == kind}
        assert (here, there) == ({NAMESPACE}, {"kafka"})


def test_the_configuration_of_a_topic_of_strimzi_can_be_set() -> None:
    """Its operator sets back what is changed in Kafka alone."""
    longer = {"requests": {"retention.ms": "1209600000"}}
    made = [*render(changed("strimzi", strimzi={"topicConfig": longer}))]

    def configs(manifests: list[Manifest]) -> dict[str, dict[str, str]]:
        topics = (one["spec"] for one in manifests if one["kind"] == "KafkaTopic")
        return {topic["topicName"]: topic["config"] for topic in topics}

    wanted = configs(of_kind("strimzi", "KafkaTopic"))
    name = "Acme_eu.requests.v1"
    assert configs(made) == {**wanted, name: {**wanted[name], **longer["requests"]}}
    with pytest.raises(RenderError, match="no such topic; there are requests, results"):
        [*render(changed("strimzi", strimzi={"topicConfig": {"request": {}}}))]


def test_strimzi_makes_topics_of_runs_where_agents_budgets_or_tool_servers_need_them() -> None:
    def made(agents: Manifest, budgets: Manifest | None = None, **topics: bool) -> set[str]:
        settings = {"agents": agents, "budgets": budgets or {}}
        values = changed("strimzi", settings=settings, topics=topics)
        del values["toolServers"]
        kinds = (one for one in render(values) if one["kind"] == "KafkaTopic")
        return {kind["spec"]["topicName"] for kind in kinds}

    def named(*tools: str, has_agents: bool) -> set[str]:
        return {topic.full_name("Acme_eu") for topic in needed(tools, has_agents=has_agents)}

    assert made({}) == named(has_agents=False)
    assert made({}, runs=True) == named(has_agents=True)
    assert made({}, {"tenant:*": {"calls": {"day": 9}}}) == named(has_agents=True)
    assert made({"helper": {"instructions": "Help."}}) == named(has_agents=True)
    helper = {"instructions": "Help.", "tools": ["bank.pay", "bank.look", "shop.buy"]}
    assert made({"helper": helper}) == named("bank.pay", "shop.buy", has_agents=True)


def test_the_topics_job_makes_those_of_runs_where_it_is_set() -> None:
    def words(**topics: Any) -> list[str]:
        (job,) = (one for one in render(changed("tools", topics=topics)) if one["kind"] == "Job")
        found: list[str] = pod(job)["containers"][0]["args"]
        return found

    made = ["--toolset", "bank", "--toolset", "orders"]
    assert words()[-4:] == words(runs=True)[-4:] == made
    assert "--runs" in words(runs=True)
    assert "--runs" not in words()


def test_a_topics_job_that_would_wait_for_a_user_of_its_own_release_is_refused() -> None:
    """Hooks before an installation run before Strimzi has been told of any user."""
    password = {"KAFKA_PASSWORD": {"secret": "prod-admin", "key": "password"}}
    users = {"topics": False, "roles": ["worker", "admin"]}
    values = changed("strimzi", strimzi=users, topics={"secretVariables": password})
    with pytest.raises(RenderError, match="before Strimzi makes the Secret prod-admin"):
        list(render(values))

    values["strimzi"]["roles"] = ["worker"]
    assert "Job" in {one["kind"] for one in render(values)}


def test_a_toolset_may_have_a_name_that_kubernetes_does_not_take() -> None:
    server = {"image": "i:1", "args": ["tools", "serve", "a:b"], "toolset": "Order_items"}
    (job,) = (
        one
        for one in render(changed("minimal", toolServers={"items": server}))
        if one["kind"] == "Job"
    )
    made = [*render(changed("strimzi", toolServers={"items": server}))]
    topics = {one["spec"]["topicName"] for one in made if one["kind"] == "KafkaTopic"}
    (user,) = (
        one
        for one in made
        if one["metadata"]["name"] == "prod-tools-items" and one["kind"] == "KafkaUser"
    )
    resources = {acl["resource"].get("name") for acl in user["spec"]["authorization"]["acls"]}

    assert pod(job)["containers"][0]["args"][-2:] == ["--toolset", "Order_items"]
    assert "Acme_eu.tools.Order_items.v1" in topics & resources
    assert "Acme_eu.tools.items.v1" not in topics | resources


def test_each_kafka_user_of_strimzi_has_the_rights_of_its_role_and_no_others() -> None:
    users = {one["metadata"]["name"]: one["spec"] for one in of_kind("strimzi", "KafkaUser")}
    roles: dict[str, Role] = {
        "worker": "worker",
        "console": "console",
        "auditor": "auditor",
        "app": "app",
        "tools-orders": "tools",
    }
    names = ResourceNames("Acme_eu", "Acme_eu.worker", "Acme_eu.app", toolset="orders")

    assert users.keys() == {f"prod-{name}" for name in roles}
    for name, role in roles.items():
        printed = rendered_rights("strimzi", Grantee(role, name), rights_of(role, names))
        assert (
            users[f"prod-{name}"]["authorization"]
            == yaml.safe_load(printed)["spec"]["authorization"]
        )

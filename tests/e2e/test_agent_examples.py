"""The worked example that a small model can do, taken from docs/agents.md and asked of it.

The others are run with a scripted model alone: tests/integration/test_agent_examples.py.
"""

import re
from pathlib import Path

import pytest

from answerbus.call_id import call_name
from answerbus.topics import RESULTS, RUN_TOPICS, STEPS
from infra.local_model import LocalModel
from tests.integration.bus import Bus, create_topics
from tests.integration.evidence import assert_sound, collect
from tests.integration.tool_servers import ToolBus
from tests.integration.worked_examples import Reader, example

pytestmark = [pytest.mark.kafka, pytest.mark.real_llm]

LIMIT_S = 300.0  # four calls, also on a busy machine
PROPOSALS = 3


def settings(model: LocalModel, agent: str) -> str:
    profile = {"provider": "openai", "model": model.name, "base_url": model.base_url}
    table = "".join(f'{name} = "{value}"\n' for name, value in profile.items())
    return f"[profiles.default]\n{table}max_output_tokens = 400\ntemperature = 0.7\n{agent}"


async def test_a_real_model_proposes_and_chooses(
    bus: Bus, model: LocalModel, tmp_path: Path
) -> None:
    page = example("A proposer and a selector")
    (program,), (agent,) = page["python"], page["toml"]
    patient, count = re.subn(r'(workflow_id="reply-1",)', rf"\1 timeout_s={LIMIT_S},", program)
    assert count == 1
    await create_topics(bus, topics=RUN_TOPICS)
    worker = bus.start_worker(bus.settings(settings(model, agent)))
    reader = Reader(bus, ToolBus(bus.bootstrap, bus.prefix, tmp_path))
    reported = await reader.run(patient)

    assert "promises=" in reported
    results = await bus.everything(RESULTS)
    proposals = {one["request_id"]: one["answer"] for one in results if one.get("parent")}
    (root,) = (one for one in results if not one.get("parent"))
    (choice,) = (one for one in await bus.everything(STEPS) if one.get("composed") == "select")
    assert len(proposals) <= PROPOSALS == root["run"]["children"]
    assert proposals[call_name(choice["chosen"])] == root["answer"], "one of them, unchanged"
    assert choice["said"], "and why"
    assert all(one["model"]["model"] == model.name for one in results)
    assert worker.terminate() == 0
    assert_sound(await collect(bus))

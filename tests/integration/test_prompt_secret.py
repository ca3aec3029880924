"""Marks in prompts are the same for all workers of a deployment, and over their restarts."""

import pytest

from answerbus.topics import ATTEMPTS
from services.settings.settings import KafkaSettings, Settings, SetUpError
from services.worker.adapters.kafka.prompt_secret import prompt_secret
from tests.integration.bus import ANSWERED, Bus, request

pytestmark = pytest.mark.kafka

DATA = {"instructions": "Propose.", "facts": [{"name": "advisory", "value": "lodash is old"}]}


async def test_by_default_it_is_the_id_of_the_cluster(kafka_bootstrap: str) -> None:
    settings = Settings(kafka=KafkaSettings(bootstrap_servers=kafka_bootstrap))

    first, second = await prompt_secret(settings), await prompt_secret(settings)

    assert first == second
    assert len(first) >= 16


async def test_without_a_broker_there_is_a_remedy() -> None:
    settings = Settings(kafka=KafkaSettings(bootstrap_servers="127.0.0.1:1"))

    with pytest.raises(SetUpError, match="start the worker again"):
        await prompt_secret(settings)


async def test_prompts_stay_the_same_over_restarts_until_the_secret_is_another(
    bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MARKS", "another one")
    settings: list[dict[str, str]] = [{}, {}, {"prompt_secret_env": "MARKS"}]
    for number, worker in enumerate(settings):
        running = bus.start_worker(bus.config([{"reply": ANSWERED}], worker=worker))
        await bus.publish([request(f"r-{number}", f"w-{number}", context=DATA)])
        await bus.terminals(number + 1)
        running.terminate()

    attempts = {attempt["request_id"]: attempt for attempt in await bus.everything(ATTEMPTS)}
    first, second, third = (attempts[f"r-{number}"]["prompt_digest"] for number in range(3))

    assert first == second != third

"""The settings file of docker-compose.yml is one that the services accept."""

from pathlib import Path

from services.settings.profiles import OpenAIProfile
from services.settings.settings import load

FILE = Path(__file__).parents[2] / "infra" / "answerbus.docker.toml"


def test_the_workers_in_docker_ask_the_local_model() -> None:
    settings = load(FILE, {"ANSWERBUS_KAFKA__BOOTSTRAP_SERVERS": "kafka:9092"})

    assert settings.kafka.bootstrap_servers == "kafka:9092"
    assert settings.profiles == {
        "default": OpenAIProfile(
            provider="openai",
            dialect="llama_cpp",
            model="local-small",
            base_url="http://local-model:8081/v1",
            api_key_env="LOCAL_MODEL_API_KEY",
            timeout_s=120,
            max_in_flight=2,
            max_output_tokens=1024,
            context_tokens=4096,
        )
    }

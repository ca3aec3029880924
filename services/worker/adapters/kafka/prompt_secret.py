"""The secret that marks around data in prompts are derived from: the same for all workers."""

from answerbus.client.bounded import bounded
from answerbus.client.bus import START_TIMEOUT_S
from answerbus.client.errors import BusRefused, BusUnavailable
from services.command_line import bus_of
from services.settings.settings import KafkaSettings, Settings, SetUpError, secret


async def prompt_secret(settings: Settings) -> bytes:
    """The secret in the settings, else the id of the Kafka cluster, which is random.

    Both outlive a worker, and an author of data in a prompt has no way to see either. Raises
    SetUpError if the variable that is named is not set.
    """
    variable = settings.worker.prompt_secret_env
    if variable is None:
        return (await _cluster_id(settings.kafka)).encode()
    value = secret(variable)
    if value is None:
        raise SetUpError(
            f"The variable {variable} is not set: put the secret for marks in prompts there, the "
            "same for all workers, or leave `worker.prompt_secret_env` out."
        )
    return value.encode()


async def _cluster_id(settings: KafkaSettings) -> str:
    """Empty for a broker that has none. Raises SetUpError."""
    try:
        async with bus_of(settings).admin() as admin:
            described = await bounded(admin.describe_cluster(), START_TIMEOUT_S)
    except (BusRefused, BusUnavailable) as error:
        raise SetUpError(
            f"Kafka at {settings.bootstrap_servers} did not name its cluster id ({error}); "
            "start the worker again."
        ) from None
    cluster_id = described.get("cluster_id")
    return cluster_id if isinstance(cluster_id, str) else ""

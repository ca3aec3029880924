"""The secret that marks around data in prompts are derived from: the same for all workers."""

from answerbus.client.bootstrap import AIOKafkaAdminClient
from answerbus.client.bounded import bounded, close
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
    bus = bus_of(settings)
    admin = AIOKafkaAdminClient(bootstrap_servers=bus.servers, **bus.options)
    try:
        async with bus.connecting():
            try:
                return await bounded(_asked(admin), START_TIMEOUT_S)
            finally:
                await close(admin.close())
    except (BusRefused, BusUnavailable) as error:
        raise SetUpError(
            f"Kafka at {settings.bootstrap_servers} did not name its cluster id ({error}); "
            "start the worker again."
        ) from None


async def _asked(admin: AIOKafkaAdminClient) -> str:
    await admin.start()
    cluster_id = (await admin.describe_cluster()).get("cluster_id")
    return cluster_id if isinstance(cluster_id, str) else ""

"""The client of the commands, built from the settings."""

from answerbus.client import Client
from answerbus.registry import Registry
from services.kafka.options import client_options, option_names
from services.settings.settings import KafkaSettings


def client_of(settings: KafkaSettings, registry: Registry | None = None) -> Client:
    """A client that knows the contracts of `registry`. Raises SetUpError."""
    return Client(
        **client_options(settings),
        topic_prefix=settings.topic_prefix,
        client_rack=settings.client_rack,
        registry=Registry() if registry is None else registry,
        option_names=option_names(settings),
    )

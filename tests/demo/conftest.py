"""The broker of the integration tests, for those here that need one."""

from tests.integration.conftest import bus, kafka_bootstrap, make_prefix

__all__ = ["bus", "kafka_bootstrap", "make_prefix"]

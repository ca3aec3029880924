"""Where telemetry is sent: the collector of the settings, by an SDK that may be missing."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from services.settings.settings import SetUpError, TelemetrySettings, otlp_endpoint

if TYPE_CHECKING:
    from services.telemetry.otlp import Otlp, OtlpEvaluations


def exporter_of(settings: TelemetrySettings, worker: str) -> "Otlp | None":
    """Of a worker; None if nothing is to be sent. Raises SetUpError."""
    endpoint = otlp_endpoint(settings)
    if endpoint is None:
        return None
    with _needing_sdk():
        from services.telemetry.otlp import Otlp  # noqa: PLC0415 - an extra, and slow to load
    return Otlp(endpoint, worker)


def evaluations_of(settings: TelemetrySettings, comparison: str) -> "OtlpEvaluations | None":
    """Of a comparison; None if nothing is to be sent. Raises SetUpError."""
    endpoint = otlp_endpoint(settings)
    if endpoint is None:
        return None
    with _needing_sdk():
        from services.telemetry.otlp import OtlpEvaluations  # noqa: PLC0415 - as above
    return OtlpEvaluations.at(endpoint, comparison)


@contextmanager
def _needing_sdk() -> Iterator[None]:
    try:
        yield
    except ImportError:
        raise SetUpError(
            "Spans are to be sent to an OpenTelemetry collector, and its SDK is missing: "
            "pip install 'answerbus-services[otlp]', or unset `telemetry.otlp_endpoint`."
        ) from None

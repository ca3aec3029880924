"""Where spans are sent: the collector of the settings, by an SDK that may be missing."""

from typing import TYPE_CHECKING

from services.settings.settings import SetUpError, TelemetrySettings, otlp_endpoint

if TYPE_CHECKING:
    from services.telemetry.otlp import Otlp


def exporter_of(settings: TelemetrySettings, worker: str) -> "Otlp | None":
    """None if nothing is to be sent. Raises SetUpError."""
    endpoint = otlp_endpoint(settings)
    if endpoint is None:
        return None
    try:
        from services.telemetry.otlp import Otlp  # noqa: PLC0415 - an extra, and slow to load
    except ImportError:
        raise SetUpError(
            "Spans are to be sent to an OpenTelemetry collector, and its SDK is missing: "
            "pip install 'answerbus-services[otlp]', or unset `telemetry.otlp_endpoint`."
        ) from None
    return Otlp(endpoint, worker)

"""Azure OpenAI."""

from dataclasses import replace
from typing import Any

from services.settings.profiles import AzureProfile
from services.worker.adapters.providers.apis.api import Api
from services.worker.adapters.providers.apis.azure import AzureApi
from services.worker.adapters.providers.apis.connection import Connection
from services.worker.adapters.providers.kinds.openai import OpenAILikeKind


class AzureKind(OpenAILikeKind[AzureProfile]):
    """See ProviderKind."""

    profile = AzureProfile
    api_type = AzureApi
    audience = "https://cognitiveservices.azure.com/.default"

    def api(self, profile: AzureProfile, connection: Connection) -> Api:
        return super().api(profile, _at(profile, connection))

    def standard_api(self, profile: AzureProfile, connection: Connection) -> Api | None:
        return super().standard_api(profile, _at(profile, connection))

    def fields(self, profile: AzureProfile) -> dict[str, Any]:
        """Newer models refuse `max_tokens`, and Azure has no others."""
        given = super().fields(profile)
        return {**given, "output_limit_field": given["output_limit_field"] or OUTPUT_LIMIT}

    def shows_schema(self, profile: AzureProfile) -> bool:
        return bool(profile.show_schema)

    def listed(self, profile: AzureProfile) -> tuple[str, str] | None:
        return "azure", profile.priced_as or profile.model


OUTPUT_LIMIT = "max_completion_tokens"


def _at(profile: AzureProfile, connection: Connection) -> Connection:
    address = f"https://{profile.resource}.openai.azure.com/openai/v1"
    return replace(connection, base_url=profile.base_url or address)

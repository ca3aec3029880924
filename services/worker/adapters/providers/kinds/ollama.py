"""Ollama."""

from pydantic_core import to_json

from services.settings.profiles import OllamaProfile
from services.worker.adapters.providers.apis.api import Api
from services.worker.adapters.providers.apis.connection import Connection
from services.worker.adapters.providers.apis.ollama import OllamaApi
from services.worker.adapters.providers.kinds.kind import ProviderKind, SampleReplies, SampleReply


class OllamaKind(ProviderKind[OllamaProfile]):
    """See ProviderKind."""

    profile = OllamaProfile
    dialect = "ollama"

    def api(self, profile: OllamaProfile, connection: Connection) -> Api:
        return OllamaApi(connection, profile.context_tokens, profile.think)

    def shows_schema(self, profile: OllamaProfile) -> bool:
        return profile.show_schema

    def samples(self, profile: OllamaProfile) -> SampleReplies:  # noqa: ARG002
        return SampleReplies(
            answered=_chat("stop", "{}"),
            truncated=_chat("length", "{"),
            refused=None,
            error=to_json({"error": "no"}),
            ready=to_json({"capabilities": ["completion"]}),
        )


def _chat(done_reason: str, content: str) -> SampleReply:
    counts = {"prompt_eval_count": 12, "eval_count": 3}
    message = {"role": "assistant", "content": content}
    done = {"done": True, "done_reason": done_reason}
    return SampleReply(to_json({"model": "m", "message": message, **done, **counts}))

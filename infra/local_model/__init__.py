"""A small real instruct model, served on this machine as an OpenAI-compatible API."""

from infra.local_model.fetch import fetch
from infra.local_model.models import MODELS
from infra.local_model.serving import LocalModel, start_model

__all__ = ["MODELS", "LocalModel", "fetch", "start_model"]

"""A provider call that always ends, and only with a Reply: SDKs bound phases, not the whole."""

import asyncio
import logging

from services.worker.core.attempt.prompt import Prompt
from services.worker.core.attempt.reply import Reply, TimedOut, Unavailable
from services.worker.ports import Provider
from services.worker.tasks.fair_timeout import FairTimeout

_log = logging.getLogger(__name__)


async def ask_bounded(provider: Provider, prompt: Prompt, timeout_s: float) -> Reply:
    """Ask once; what the provider fails to say itself is said for it."""
    try:
        async with FairTimeout(timeout_s):
            return await provider.ask(prompt, timeout_s=timeout_s)
    except TimeoutError:
        return TimedOut(timeout_s)
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        _log.exception("the provider %s cancelled its own call", provider.name)
        return Unavailable(status=None, ran=True)
    except Exception:
        _log.exception("the provider %s broke its promise to reply", provider.name)
        return Unavailable(status=None, ran=True)

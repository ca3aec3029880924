"""Asks running workers for the state of their lanes, where they can be reached."""

from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any

from aiohttp import ClientError, ClientSession, ClientTimeout

from services.doctor.findings.finding import Finding
from services.settings.settings import Settings

TIMEOUT_S = 3.0
_MISSING = "unknown"
_DIGEST_SHOWN = 19  # characters: enough to tell one from another


async def lanes(settings: Settings) -> AsyncIterator[Finding]:
    """One line for each worker whose lanes are not all well, and for each agent in dispute.

    Most workers are not to be asked from here.
    """
    digests: dict[str, dict[str, str]] = {}
    async with ClientSession(timeout=ClientTimeout(TIMEOUT_S)) as session:
        for address in addresses(settings):
            body = await _asked(session, address)
            if body is None:
                continue
            if text := reason_of(body):
                yield Finding("lanes", "warning", f"the worker at {address}: {text}")
            agents = body.get("agents")
            if isinstance(agents, dict):
                digests[address] = {str(name): str(digest) for name, digest in agents.items()}
    for text in disagreements(digests):
        yield Finding("agents", "warning", text)


def disagreements(digests: Mapping[str, Mapping[str, str]]) -> Iterator[str]:
    """The agents whose definition is not the same at all workers, and at which it is which."""
    for name in sorted({name for agents in digests.values() for name in agents}):
        places: dict[str, list[str]] = {}
        for address, agents in digests.items():
            places.setdefault(agents.get(name, _MISSING), []).append(address)
        if len(places) > 1:
            shown = "; ".join(
                f"{digest[:_DIGEST_SHOWN]} at {', '.join(found)}"
                for digest, found in sorted(places.items())
            )
            yield (
                f"workers disagree on the agent {name}: {shown}. A run has the definition of the "
                "worker that begins it: give all workers the same settings, or the new definition "
                "another `version`"
            )


def addresses(settings: Settings) -> list[str]:
    """The worker of this machine, and those that the console asks."""
    here = settings.worker.health
    own = [] if here.endswith(":0") else [f"http://{here}"]
    return list(dict.fromkeys([*own, *settings.console.workers]))


def reason_of(body: dict[str, Any]) -> str | None:
    """Which lanes are not open, how far they are, and what keeps them."""
    reasons, stuck = body.get("reasons"), body.get("stuck")
    texts = [str(reason) for reason in reasons] if isinstance(reasons, list) else []
    if isinstance(stuck, dict):
        texts += [f"lane {lane}: {why}" for lane, why in stuck.items()]
    return "; ".join(texts) or None


async def _asked(session: ClientSession, address: str) -> dict[str, Any] | None:
    try:
        async with session.get(f"{address.rstrip('/')}/ready") as answer:
            body = await answer.json()
    except (TimeoutError, ClientError, ValueError):
        return None
    return body if isinstance(body, dict) else None

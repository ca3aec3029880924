"""What running workers say of their lanes, if they can be asked from here."""

from collections.abc import AsyncIterator
from typing import Any

from aiohttp import ClientError, ClientSession, ClientTimeout

from services.doctor.findings.finding import Finding
from services.settings import Settings

TIMEOUT_S = 3.0


async def lanes(settings: Settings) -> AsyncIterator[Finding]:
    """One line for each worker whose lanes are not all well; most are not to be asked from here."""
    async with ClientSession(timeout=ClientTimeout(TIMEOUT_S)) as session:
        for address in addresses(settings):
            body = await _asked(session, address)
            if body is not None and (said := trouble_of(body)):
                yield Finding("lanes", "warning", f"the worker at {address}: {said}")


def addresses(settings: Settings) -> list[str]:
    """The worker of this machine, and those that the console asks."""
    here = settings.worker.health
    own = [] if here.endswith(":0") else [f"http://{here}"]
    return list(dict.fromkeys([*own, *settings.console.workers]))


def trouble_of(body: dict[str, Any]) -> str | None:
    """Which lanes are not open, how far they are, and what keeps them."""
    reasons, stuck = body.get("reasons"), body.get("stuck")
    said = [str(reason) for reason in reasons] if isinstance(reasons, list) else []
    if isinstance(stuck, dict):
        said += [f"lane {lane}: {why}" for lane, why in stuck.items()]
    return "; ".join(said) or None


async def _asked(session: ClientSession, address: str) -> dict[str, Any] | None:
    try:
        async with session.get(f"{address.rstrip('/')}/ready") as answer:
            body = await answer.json()
    except (TimeoutError, ClientError, ValueError):
        return None
    return body if isinstance(body, dict) else None

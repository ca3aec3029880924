"""Whether one profile can serve, for those who look at a set-up from outside."""

from services.settings import Profile, SetUpError
from services.worker import backends
from services.worker.clock import SystemClock


async def fault_of(name: str, profile: Profile) -> str | None:
    """What to change in the profile, in one sentence; None if a worker would start with it."""
    try:
        built = backends.build({name: profile}, SystemClock())
    except SetUpError as error:
        return str(error)
    try:
        await backends.preflight(built)
    except SetUpError as error:
        return str(error)
    finally:
        await built[name].provider.close()
    return None

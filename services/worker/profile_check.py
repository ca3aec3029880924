"""Whether one profile can serve, for those who look at a set-up from outside."""

from dataclasses import dataclass

from services.profiles import Profile
from services.settings import SetUpError
from services.worker.adapters import backends
from services.worker.adapters.clock import SystemClock


@dataclass(frozen=True, slots=True)
class Checked:
    """`fault` is what must be changed before a worker starts, `advice` what should be."""

    fault: str | None = None
    advice: str | None = None


async def checked(name: str, profile: Profile) -> Checked:
    """What a worker would find at start; each in one sentence."""
    try:
        built = backends.build({name: profile}, SystemClock())
    except SetUpError as error:
        return Checked(str(error))
    try:
        return Checked(advice=next(iter(await backends.preflight(built)), None))
    except SetUpError as error:
        return Checked(str(error))
    finally:
        await built[name].provider.close()

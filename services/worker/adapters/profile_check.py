"""Checks from outside whether one profile can serve."""

from dataclasses import dataclass

from services.settings.profiles import Profile
from services.settings.settings import SetUpError
from services.worker.adapters import backends
from services.worker.adapters.clock import SystemClock


@dataclass(frozen=True, slots=True)
class ProfileFinding:
    """`fault` is why the profile does not work, `advice` what should be changed."""

    fault: str | None = None
    advice: str | None = None


async def checked(name: str, profile: Profile) -> ProfileFinding:
    """The problems that a worker would find at start; each in one sentence."""
    try:
        built = backends.build({name: profile}, SystemClock())
    except SetUpError as error:
        return ProfileFinding(str(error))
    try:
        found = await backends.preflight(built)
    except SetUpError as error:
        return ProfileFinding(str(error))
    finally:
        await backends.close(built)
    return ProfileFinding(next(iter(found.unhealthy), None), next(iter(found.advice), None))

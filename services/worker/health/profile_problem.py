"""Why the requests of a profile are not answered, in one sentence for an operator; else None."""

from collections.abc import Mapping

from services.worker.limits.profile_limiter import ProfileLimiter
from services.worker.plans import Backend


def profile_problems(backends: Mapping[str, Backend], bound_s: float) -> dict[str, str]:
    """By profile; `bound_s` is how long a provider may say nothing."""
    problems = {name: _problem(backend.limiter, bound_s) for name, backend in backends.items()}
    return {name: why for name, why in problems.items() if why}


def _problem(limiter: ProfileLimiter, bound_s: float) -> str | None:
    if problem := limiter.problem:
        return problem
    silent_s = limiter.silent_s
    if silent_s <= limiter.watchdog.bound_s(bound_s):
        return None
    return f"no word from the provider for {silent_s:.0f} s"

"""Why the requests of profiles are not answered, by profile."""

from collections.abc import Mapping

from services.worker.core.limits.profile_problem import ProfileProblem
from services.worker.limits.profile_limiter import ProfileLimiter
from services.worker.plans import Backend


def profile_problems(backends: Mapping[str, Backend], bound_s: float) -> dict[str, ProfileProblem]:
    """The problem of each profile that has one; `bound_s` is how long a provider may be silent."""
    problems = {name: _problem(backend.limiter, bound_s) for name, backend in backends.items()}
    return {name: problem for name, problem in problems.items() if problem}


def _problem(limiter: ProfileLimiter, bound_s: float) -> ProfileProblem | None:
    if problem := limiter.problem:
        return problem
    silent_s = limiter.silent_s
    if silent_s <= limiter.watchdog.bound_s(bound_s):
        return None
    text = f"no word from the provider for {silent_s:.0f} s"
    return ProfileProblem("silent", text, silent_s)

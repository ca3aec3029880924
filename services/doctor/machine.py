"""Checks this machine: required libraries, and enough open files."""

import resource
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, requires, version

from packaging.requirements import Requirement

from services.doctor.findings.finding import Finding
from services.settings.worker import WorkerSettings

DISTRIBUTIONS = ("answerbus", "answerbus-services")
SHOWN = ("aiokafka", "faststream", "pydantic", "jsonschema-rs")
FILES_BESIDE_CALLS = 200  # connections to brokers, logs, libraries


def libraries() -> Finding:
    """Whether what is installed is what we were built against."""
    faults = [fault for name in DISTRIBUTIONS for fault in _missing_dependencies(name)]
    if faults:
        return Finding("libraries", "wrong", f"{'; '.join(faults)}: install answerbus anew")
    message = ", ".join(f"{name} {version(name)}" for name in SHOWN)
    return Finding("libraries", "ok", f"as required ({message})")


def _missing_dependencies(distribution: str) -> Iterator[str]:
    try:
        required = requires(distribution) or ()
    except PackageNotFoundError:
        yield f"{distribution} is missing"
        return
    for line in required:
        requirement = Requirement(line)
        if requirement.marker and not requirement.marker.evaluate({"extra": ""}):
            continue
        try:
            found = version(requirement.name)
        except PackageNotFoundError:
            yield f"{requirement.name} is missing"
            continue
        if not requirement.specifier.contains(found, prereleases=True):
            yield f"{requirement.name} is {found} and should be {requirement.specifier}"


def open_files(worker: WorkerSettings) -> Finding:
    """Whether each call in flight may have its connection."""
    most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return judged_files(most, worker.max_in_flight + FILES_BESIDE_CALLS)


def judged_files(most: int, needed: int) -> Finding:
    """`most` as the system says it: -1 is no limit."""
    if 0 <= most < needed:
        text = (
            f"{most:,} may be open at once, and `worker.max_in_flight` may need {needed:,}: raise "
            "the limit (`ulimit -n`), or lower the setting"
        )
        return Finding("files", "warning", text)
    limit = "without limit" if most < 0 else f"{most:,}"
    return Finding("files", "ok", f"{limit} may be open at once, {needed:,} may be needed")

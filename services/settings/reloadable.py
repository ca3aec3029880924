"""The settings that a worker can reload while it runs, and a digest of them."""

from collections.abc import Iterator

from pydantic import BaseModel

from services.settings.settings import Settings
from services.text.digest import canonical_digest

LIVE_SECTIONS = ("profiles", "agents")
LIVE_OF_WORKER = frozenset(
    {"max_in_flight", "held_max", "lane_requests_max", "lane_bytes_max", "drain_s"}
)
_OF_OTHERS = "console"  # the console's own, which no worker reads


def digest_of(settings: Settings) -> str:
    """The digest of all settings that may change while a worker runs."""
    live = settings.model_dump(mode="json", include={*LIVE_SECTIONS})
    limits = settings.worker.model_dump(mode="json", include={*LIVE_OF_WORKER})
    return canonical_digest({**live, "worker": limits})


def fixed_differences(current: Settings, found: Settings) -> list[str]:
    """The settings that differ and are taken at a start alone, by name."""
    return [*_differences(current, found)]


def _differences(current: Settings, found: Settings) -> Iterator[str]:
    for section in type(current).model_fields:
        if section not in (*LIVE_SECTIONS, _OF_OTHERS):
            one, other = getattr(current, section), getattr(found, section)
            if isinstance(one, BaseModel):
                yield from (f"{section}.{name}" for name in _names(one, other))
            elif one != other:
                yield section


def _names(one: BaseModel, other: BaseModel) -> Iterator[str]:
    for name in type(one).model_fields:
        if name not in LIVE_OF_WORKER and getattr(one, name) != getattr(other, name):
            yield name

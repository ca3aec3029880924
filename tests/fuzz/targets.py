"""All targets by name."""

from collections.abc import Mapping
from types import MappingProxyType

from tests.fuzz import answers, fetched, records, replies, schemas, stored, summaries
from tests.fuzz.target import Target

TARGETS: Mapping[str, Target] = MappingProxyType(
    {
        target.name: target
        for target in (
            records.TARGET,
            fetched.TARGET,
            stored.TARGET,
            schemas.TARGET,
            answers.TARGET,
            replies.TARGET,
            summaries.TARGET,
        )
    }
)

"""A filter of records, for whole records and summaries alike; pure."""

from dataclasses import dataclass
from typing import Protocol

from answerbus.schema_name import SchemaName


class AnyRecord(Protocol):
    """The fields of a record that a filter may use."""

    @property
    def kind(self) -> str:
        """The event's kind, or what stands in for one."""

    @property
    def workflow_id(self) -> str | None:
        """The workflow, if the record says it."""

    @property
    def schema_name(self) -> SchemaName | None:
        """The schema that was asked for, if the record says it."""


@dataclass(frozen=True, slots=True)
class RecordFilter:
    """A filter of records; None matches anything."""

    workflow_id: str | None = None
    contract: str | None = None
    kinds: frozenset[str] | None = None

    def admits(self, record: AnyRecord) -> bool:
        """Whether a record is wanted; one that does not say its workflow or contract is not."""
        return (
            (self.kinds is None or record.kind in self.kinds)
            and self.workflow_id in (None, record.workflow_id)
            and (self.contract is None or self.contract in _names(record.schema_name))
        )


def _names(schema: SchemaName | None) -> tuple[str, ...]:
    return () if schema is None else (schema.kind, schema.name or schema.kind, schema.label)

"""The name of a schema, on the wire and for people; without its content."""

from dataclasses import dataclass
from typing import Literal, assert_never

from answerbus.request import (
    ContractId,
    ContractRef,
    InlineId,
    InlineRef,
    SchemaId,
    SchemaRef,
    TextId,
    TextRef,
)


@dataclass(frozen=True, slots=True)
class SchemaName:
    """A short name for `schema` and `answer_schema` of any event."""

    kind: Literal["contract", "inline", "text"]
    name: str = ""
    version: int | None = None

    @property
    def label(self) -> str:
        """For people, such as `plan_proposal.v1`, `inline search` or `text`."""
        match self.kind:
            case "contract":
                return f"{self.name}.v{self.version}"
            case "inline":
                return f"inline {self.name}"
            case "text":
                return "text"
            case _:
                assert_never(self.kind)

    @property
    def header(self) -> str:
        """The value of the header `ce_contract`: `plan_proposal.v1`, `inline` or `text`."""
        return self.label if self.kind == "contract" else self.kind


def schema_name(schema: SchemaRef | SchemaId) -> SchemaName:
    """The name of the schema that was asked for, or answered."""
    match schema:
        case ContractRef() | ContractId():
            return SchemaName(schema.kind, schema.name, schema.version)
        case InlineRef() | InlineId():
            return SchemaName(schema.kind, schema.name)
        case TextRef() | TextId():
            return SchemaName(schema.kind)
        case _:
            assert_never(schema)

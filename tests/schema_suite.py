"""The groups of the JSON Schema test suite, each with its draft written into its schema."""

from typing import Any

from tests.corpora import SuiteFile

DRAFTS = {
    "draft7": "http://json-schema.org/draft-07/schema#",
    "draft2020-12": "https://json-schema.org/draft/2020-12/schema",
}


def groups(file: SuiteFile) -> list[tuple[Any, Any]]:
    """Each schema with its draft written into it, and its tests."""
    return [(_declared(file, group["schema"]), group["tests"]) for group in file.groups]


def _declared(file: SuiteFile, schema: Any) -> Any:
    return {"$schema": DRAFTS[file.draft], **schema} if isinstance(schema, dict) else schema

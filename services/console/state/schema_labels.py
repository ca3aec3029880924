"""Maps a schema's digest to its name: attempts have digests, and outcomes have both; pure."""

from collections import OrderedDict

from services.operators.records.event_parts import AnsweredSchema

LABELS_MAX = 1_000
UNNAMED = "(no answer so far)"


class SchemaLabels:
    """Learns from outcomes; `known` are the contracts of the registry."""

    def __init__(self) -> None:
        self._labels: OrderedDict[str, str] = OrderedDict()

    def take(self, schema: AnsweredSchema | None) -> None:
        """Remember what an outcome says."""
        if schema is None or schema.digest is None:
            return
        if schema.digest not in self._labels and len(self._labels) >= LABELS_MAX:
            self._labels.popitem(last=False)
        self._labels[schema.digest] = schema.label

    def of(self, digest: str) -> str:
        """The label of a schema; a name in brackets where none is known."""
        return self._labels.get(digest, digest if digest.startswith(("(", "–")) else UNNAMED)

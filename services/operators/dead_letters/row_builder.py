"""From the head of a record to a letter, with each text that many dead letters share kept once."""

from answerbus.limits import ATTEMPTS_DEFAULT
from services.operators.dead_letters import projection
from services.operators.dead_letters.projection import milliseconds
from services.operators.dead_letters.row import DeadLetterRow, Dismissal, Funds, ReplayInfo
from services.operators.records.stored import Place

SHARED_MAX = 100_000  # texts; beyond, each dead letter keeps its own


class RowBuilder:
    """Remembers what it has made, so that it is made once."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}
        self._labels: dict[tuple[tuple[str, str], ...], tuple[tuple[str, str], ...]] = {}
        self._limits: dict[Funds, Funds] = {}

    def row(self, head: projection.DeadLetterHead, place: Place) -> DeadLetterRow:
        """The dead letter at that place."""
        request, account = head["request"], head["account"]
        prior = head.get("prior") or ()
        failure = head["cause"].get("failure") or (prior[-1]["failure"] if prior else None)
        return DeadLetterRow(
            id=head["dead_letter_id"],
            place=place,
            at_ms=milliseconds(head["at"]),
            cause=self.interned(head["cause"]["kind"]),
            failure=self.interned(failure["kind"]) if failure else None,
            request_id=head["request_id"],
            workflow_id=self._one_or_none(head["workflow_id"]),
            schema=self.interned(_label(request["answer_schema"])) if request else None,
            profile=self.interned(request.get("profile", "default")) if request else None,
            labels=self._shared_labels(head.get("labels") or {}),
            account_id=self._one_or_none(account["id"] if account else None),
            limit=self._shared_limit(request.get("budget") or {}) if request else None,
            spent=_spent(account["spent"]) if account else None,
            round=head.get("round", 0),
        )

    def replay(self, head: projection.ReplayedHead) -> ReplayInfo:
        """What is kept of a Replayed."""
        by, reason = self.interned(head["by"]), self.interned(head["reason"])
        return ReplayInfo(head["request_id"], head["round"], by, reason, milliseconds(head["at"]))

    def dismissal(self, head: projection.DismissedHead) -> Dismissal:
        """What is kept of a Dismissed."""
        return Dismissal(
            self.interned(head["by"]), self.interned(head["reason"]), milliseconds(head["at"])
        )

    def interned(self, text: str) -> str:
        """The same text, kept once."""
        known = self._texts.get(text)
        if known is None and len(self._texts) < SHARED_MAX:
            self._texts[text] = text
        return known or text

    def _one_or_none(self, text: str | None) -> str | None:
        return None if text is None else self.interned(text)

    def _shared_labels(self, labels: dict[str, str]) -> tuple[tuple[str, str], ...]:
        pairs = tuple((self.interned(name), self.interned(text)) for name, text in labels.items())
        if len(self._labels) < SHARED_MAX:
            return self._labels.setdefault(pairs, pairs)
        return self._labels.get(pairs, pairs)

    def _shared_limit(self, head: projection.FundsHead) -> Funds:
        limit = _limit(head)
        if len(self._limits) < SHARED_MAX:
            return self._limits.setdefault(limit, limit)
        return self._limits.get(limit, limit)


def _limit(head: projection.FundsHead) -> Funds:
    attempts = head.get("attempts", ATTEMPTS_DEFAULT)
    return Funds(attempts, head.get("tokens"), head.get("micro_usd"))


def _spent(head: projection.FundsHead) -> Funds:
    return Funds(head.get("attempts", 0), head.get("tokens", 0), head.get("micro_usd", 0))


def _label(schema: projection.SchemaHead) -> str:
    """As `reading.seen.label` writes it."""
    name = schema.get("name", "")
    match schema["kind"]:
        case "contract":
            return f"{name}.v{schema.get('version')}"
        case "inline":
            return f"inline {name}"
        case "text":
            return "text"

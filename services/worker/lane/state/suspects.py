"""Requests that may end workers: held back, tried in isolation, and given up one by one."""

from collections.abc import Callable, Collection, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

from pydantic_core import to_json

from answerbus.private.ledger import LaneRecord, Suspect, SuspectRecord, WorkInProgress
from answerbus.request_key import RequestKey

HELD_FROM = 2  # crashes in a row with its call in flight; fewer are a coincidence
ALONE_FROM = 4  # from then on one that is left over calls while nothing else does
# Such crashes; with those before, more than ten kills that no request is to blame for.
ALONE_MAX = 7
PREPARED_MAX = 3  # no coincidence: what takes milliseconds
RECORD_MAX = 3
SUSPECTS_MAX = 1_000  # so that the lane's record fits the topic
SUSPECTS_BYTES_MAX = 960 * 1024  # as well, with ids that take six bytes of JSON a character
SUSPECT_BYTES = 100  # of JSON, beside its ids
SPARE_ATTEMPTS = 2  # who has fewer left on its account is not tried together with others


@dataclass(slots=True)
class Suspects:
    """The suspects of one lane.

    A request is cleared by a call of its own that comes to an end, and by nothing else.

    More may have been in flight than can be written down (SUSPECTS_MAX). Then those that were
    called first are suspects, and until they are cleared others are called only as far as there is
    room: so that no further crash has more suspects than can be written down. Those of a single
    crash take room only while they are called: they may wait for long, for a profile that is away,
    and if there are too many after the next crash, those that had no part in it are forgotten. It
    may have been a coincidence, and who is to blame for it comes again.
    """

    found: dict[RequestKey, Suspect] = field(default_factory=dict)
    record: SuspectRecord | None = None

    def listed(self) -> tuple[Suspect, ...]:
        """For the lane's record, those with most crashes if there are too many."""
        return tuple(self._most().values())

    def bound(self) -> None:
        """Keep as many as can be written down.

        Those with most crashes, of them those of the last crash, and of these the first.
        """
        self.found = self._most()

    def _most(self) -> dict[RequestKey, Suspect]:
        ranked = sorted(self.found, key=lambda name: _weight(self.found[name]), reverse=True)
        kept, size = set[RequestKey](), 0
        for name in ranked[:SUSPECTS_MAX]:
            size += SUSPECT_BYTES + len(to_json(name))
            if size > SUSPECTS_BYTES_MAX:
                break
            kept.add(name)
        return {name: suspect for name, suspect in self.found.items() if name in kept}

    def has_room(self, request: RequestKey, in_flight: Collection[RequestKey]) -> bool:
        """Whether it may be called beside those: should the worker end, all are suspects."""
        if not self.found or len(self.found) + len(in_flight) < SUSPECTS_MAX:
            return True
        certain = {name for name, suspect in self.found.items() if _is_certain(suspect)}
        if request in certain:
            return True
        return len(certain) + sum(one not in certain for one in in_flight) < SUSPECTS_MAX

    def rank(self, request: RequestKey) -> int:
        """How suspect it is: less suspect requests are tried first."""
        suspect = self.found.get(request)
        return _rank(suspect) if suspect else 0

    def is_held(self, request: RequestKey) -> bool:
        """Whether it may only run when it is tried."""
        suspect = self.found.get(request)
        if suspect is None or self.given_up(request):
            return False
        return _is_certain(suspect)

    def given_up(self, request: RequestKey) -> int | None:
        """After how many crashes it is given up; None if it is not."""
        suspect = self.found.get(request)
        if suspect is None or (suspect.alone < ALONE_MAX and suspect.prepared < PREPARED_MAX):
            return None
        return suspect.crashes + suspect.prepared

    def needs_all(self, request: RequestKey) -> bool:
        """Whether, tried by itself, it must call while nothing else does."""
        suspect = self.found.get(request)
        return suspect is not None and suspect.crashes >= ALONE_FROM

    def record_given_up(self, offset: int) -> int | None:
        """After how many crashes the record at `offset` is given up; None if it is not."""
        found = self.record
        if found is None or found.offset != offset or found.crashes < RECORD_MAX:
            return None
        return found.crashes

    def next_tried(
        self, waiting: Sequence[RequestKey], can_spare: Callable[[RequestKey], bool]
    ) -> list[RequestKey]:
        """Whom to try together: of those least suspect, half of all, or less the more they are.

        So innocents soon have their turn, and each crash halves those it may be, also where there
        are several to be found.
        """
        if not waiting:
            return []
        ranked = sorted(waiting, key=self.rank)
        least = self.rank(ranked[0])
        most = max(len(ranked) >> max(least - HELD_FROM + 1, 1), 1)
        alike = [i for i in ranked if self.rank(i) == least][:most]
        together = [request for request in alike if can_spare(request)]
        return together if len(together) > 1 else ranked[:1]

    def clear(self, request: RequestKey) -> bool:
        """It was called and lived, or is gone; gives whether it was suspect."""
        return self.found.pop(request, None) is not None

    def pass_record(self, offset: int) -> None:
        if self.record and self.record.offset <= offset:
            self.record = None

    def blame(self, watched: WorkInProgress | None, in_flight: AbstractSet[RequestKey]) -> None:
        """A worker ended while it was at this."""
        named = _watched_request(watched)
        is_alone = watched is not None and watched.what == "call"
        for request in in_flight:
            self._count(request, crashes=1, alone=int(is_alone and named == request))
        self.found = {name: self.found[name] for name in in_flight} | self.found
        if watched is None or watched.what == "call":
            return
        if named is not None:
            self._count(named, prepared=1)
        elif watched.offset is not None:
            same = self.record is not None and self.record.offset == watched.offset
            before = self.record.crashes if self.record and same else 0
            self.record = SuspectRecord(offset=watched.offset, crashes=before + 1)

    def _count(
        self, request: RequestKey, *, crashes: int = 0, alone: int = 0, prepared: int = 0
    ) -> None:
        before = self.found.get(request, Suspect(**request._asdict()))
        self.found[request] = Suspect(
            **request._asdict(),
            crashes=before.crashes + crashes,
            alone=before.alone + alone,
            prepared=before.prepared + prepared,
        )


def suspects_of(lane: LaneRecord | None, is_closed: Callable[[RequestKey], bool]) -> Suspects:
    """The suspects that a predecessor recorded, without those that have had their outcome."""
    if lane is None:
        return Suspects()
    found = {
        RequestKey(suspect.workflow_id, suspect.request_id): suspect
        for suspect in lane.suspects
        if suspect.workflow_id is not None
    }
    return Suspects(
        {name: suspect for name, suspect in found.items() if not is_closed(name)},
        lane.suspect_record,
    )


def _watched_request(watched: WorkInProgress | None) -> RequestKey | None:
    if watched is None or watched.request_id is None or watched.workflow_id is None:
        return None
    return RequestKey(watched.workflow_id, watched.request_id)


def _rank(suspect: Suspect) -> int:
    return suspect.crashes + suspect.prepared


def _is_certain(suspect: Suspect) -> bool:
    """Whether it is more than a coincidence that it was there."""
    return suspect.crashes >= HELD_FROM or suspect.prepared > 0


def _weight(suspect: Suspect) -> tuple[bool, int]:
    return _is_certain(suspect), _rank(suspect)

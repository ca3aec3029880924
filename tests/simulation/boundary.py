"""What a worker must keep to where it touches Kafka: the order of an opening, and back-pressure."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

from tests.chaos.audit.canonical import owner
from tests.simulation.log import Entry
from tests.simulation.process import Process
from tests.simulation.timeline import Timeline

CROWD_FACTOR = 8  # so many that are behind others of their workflow weigh as much as one


@dataclass(slots=True)
class _Hold:
    """One process on one partition, from an assignment on."""

    is_sought: bool = False
    fences: int = 0
    is_proved: bool = False
    committed_at_fence: int = 0
    delivered: dict[str, str | None] = field(default_factory=dict)  # ids with ordered workflows


class Boundary:
    """Told by the clients what a process does; `complaints` are what it must not have done.

    An opening pauses its partition before anything is delivered, fences, and only then asks where
    to begin; one that opens again under the same assignment has proved before that it is still a
    member (beyond the deployment's partitions it proves it afterwards, see services' reopening);
    no lane is handed more than it may hold; and a lane beyond the deployment's partitions, which
    has no ledger to tell what it has forwarded, commits nothing without the offset behind it.
    """

    def __init__(self, timeline: Timeline, partitions: int, held_max: int) -> None:
        self.complaints: list[str] = []
        self.read_at: dict[tuple[int, int], datetime] = {}  # by place: when it was last delivered
        self._timeline = timeline
        self._partitions, self._held_max = partitions, held_max
        self._holds: dict[tuple[Process, int], _Hold] = {}
        self._ended: set[str] = set()  # request ids
        self._listed: set[str] = set()  # those that have been retries, or suspects of a crash
        self._taken: list[tuple[int, int, datetime]] = []  # process, partition, when

    def assigned(self, process: Process, partition: int) -> None:
        """The group gave it the partition."""
        before = self._holds.get((process, partition), _Hold())
        self._holds[process, partition] = _Hold(committed_at_fence=before.committed_at_fence)

    def taken(self, process: Process, partition: int, at: datetime) -> None:
        """The group gave the partition to somebody else."""
        self._taken.append((process.number, partition, at))

    def was_taken(self, process: int, partition: int, after: datetime, before: datetime) -> bool:
        """Whether the process lost the partition in that time, if only for a moment."""
        place = process, partition
        return any((n, p) == place and after <= at <= before for n, p, at in self._taken)

    def fenced(self, process: Process, partition: int, committed: int) -> None:
        """It started a producer; `committed` is the group's offset now."""
        hold = self._holds.setdefault((process, partition), _Hold())
        self._timeline.tell(f"fences, the group is at {committed}", partition, process.name)
        if hold.fences and not hold.is_proved and partition < self._partitions:
            self._complain(process, partition, "fenced again without proving that it is a member")
        hold.fences += 1
        hold.is_proved, hold.committed_at_fence = False, committed

    def proved(self, process: Process, partition: int) -> None:
        """The coordinator took an offset of it."""
        self._holds.setdefault((process, partition), _Hold()).is_proved = True

    def committed(self, process: Process, partition: int, *, has_offset: bool) -> None:
        """A transaction of its lane, with records in it."""
        if partition >= self._partitions and not has_offset:
            self._complain(process, partition, "commits what it forwards without an offset")

    def sought(self, process: Process, partition: int, offset: int) -> None:
        """It wants records from there on."""
        hold = self._holds.setdefault((process, partition), _Hold())
        self._timeline.tell(f"seeks {offset}", partition, process.name)
        if offset < hold.committed_at_fence:
            text = f"seeks {offset}, and when it fenced the group was at {hold.committed_at_fence}"
            self._complain(process, partition, text)
        hold.is_sought, hold.delivered = True, {}

    def delivered(
        self, process: Process, partition: int, entries: Sequence[Entry], at: datetime
    ) -> None:
        """Its poll loop gets records."""
        hold = self._holds.setdefault((process, partition), _Hold())
        first, last = entries[0].offset, entries[-1].offset
        self._timeline.tell(f"is handed {first} to {last}", partition, process.name)
        if not hold.is_sought:
            self._complain(process, partition, "is handed records before it says where to begin")
        held = self._load(hold)
        self.read_at |= {(partition, entry.offset): at for entry in entries}
        hold.delivered |= dict(filter(None, map(self._asked, entries)))
        if held > self._held_max + len(entries):
            text = f"is handed more while it holds {held}, and {self._held_max} are its limit"
            self._complain(process, partition, text)

    def ended(self, request_id: str) -> None:
        """The request has had its terminal."""
        self._ended.add(request_id)

    def listed(self, request_id: str) -> None:
        """The request waits for another attempt, or apart; for those there are other limits."""
        self._listed.add(request_id)

    def _load(self, hold: _Hold) -> int:
        """What is held and has not ended: of those behind others of their workflow, a part."""
        gone = self._ended | self._listed
        held = [asked for id_, asked in hold.delivered.items() if id_ not in gone]
        pressing = len(held) - sum(map(bool, held)) + len({w for w in held if w})
        return pressing + (len(held) - pressing) // CROWD_FACTOR

    def _asked(self, entry: Entry) -> tuple[str, str | None] | None:
        """The request of this partition that it is, and the workflow in which that waits."""
        try:
            body = json.loads(entry.value or b"")
            workflow = str(body["workflow_id"])
            name = f"{body['request_id']}@{workflow}"
        except (ValueError, LookupError, TypeError):
            return None
        if owner(workflow, self._partitions) != entry.partition:
            return None
        return name, workflow  # unordered ones wait behind each other, too, while slots are taken

    def _complain(self, process: Process, partition: int, text: str) -> None:
        if process.is_dead:
            return
        self._timeline.tell(f"WRONG: {text}", partition, process.name)
        self.complaints.append(f"{process.name} lane {partition}: {text}")

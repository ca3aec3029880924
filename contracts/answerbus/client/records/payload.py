"""The bytes of a batch's records; only a bounded share is kept between polls."""

from dataclasses import dataclass

from answerbus.client.records.frames import Frame, frame_at
from answerbus.client.records.poll_time_budget import PollTimeBudget
from answerbus.client.records.unpacking import unpack
from answerbus.client.records.unreadable import Fault


@dataclass(slots=True)
class Payload:
    """Gives records in order; `index` counts those that are passed.

    What is behind the part that is held is unpacked again when it is reached: to unpack twice
    costs milliseconds, and to keep it costs memory for as long as its reader likes.
    """

    held: bytes = b""
    at: int = 0  # of the next record, in what is held
    codec: int = 0
    packed: bytes | memoryview = b""
    allowance: PollTimeBudget | None = None
    index: int = 0
    _is_last: bool = True  # nothing is behind what is held
    _before: int = 0  # bytes before what is held
    _fault: Fault | None = None  # where the next record should stand

    def skip(self, whole: bytes | memoryview, count: int) -> None:
        """Pass by so many records, or those that there are."""
        for _ in range(count):
            frame = frame_at(whole, self.at)
            if isinstance(frame, Fault):
                return
            self.at = frame.end
            self.index += 1

    def hold(self, unpacked: memoryview) -> None:
        """Keep it from the next record on, until the reader has what it wants for now."""
        begin = self._before + self.at
        frame = frame_at(unpacked, begin)
        if isinstance(frame, Fault):
            self._fault = frame
            return
        self.held, self.at, self._before = bytes(unpacked[begin:]), 0, begin
        self._is_last = True
        if self.allowance is not None:
            self.allowance.take(len(self.held), self._trim)

    def _trim(self) -> None:
        """Keep no more than the share."""
        if self.allowance is None or len(self.held) <= self.allowance.share_bytes:
            return
        end = self.at + self.allowance.share_bytes
        self._is_last = end >= len(self.held)
        self.held, self._before, self.at = self.held[self.at : end], self._before + self.at, 0

    def unpack_again(self) -> None:
        """Hold the part that comes next."""
        self.held, self._before, self.at = b"", self._before + self.at, 0
        found = unpack(self.codec, bytes(self.packed), self.hold)
        if isinstance(found, Fault):
            self._fault = found

    def next(self) -> tuple[bytes, Frame] | Fault | None:
        """The next record's bytes, and where in them it stands.

        None: it has to be unpacked first.
        """
        if self._fault:
            return self._fault
        held, frame = self.held, frame_at(self.held, self.at)
        if isinstance(frame, Fault):
            return frame if self._is_last else None
        self.at = frame.end
        self.index += 1
        if self.at == len(held):  # so that a large record is not kept while its reader waits
            self.held, self._before, self.at = b"", self._before + self.at, 0
        return held, frame

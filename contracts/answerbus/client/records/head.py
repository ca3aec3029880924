"""The fixed part of a batch of format 2, as bytes and as its fields."""

import struct
from typing import Final, NamedTuple

_HEAD = struct.Struct(">qiibIhiqqqhii")
CODEC_AT: Final = struct.calcsize(">qiibI") + 1  # the lower byte of the attributes
HEAD_BYTES: Final = _HEAD.size
CODEC, _APPEND_TIME, _TRANSACTIONAL, _CONTROL = 0x07, 0x08, 0x10, 0x20


class Head(NamedTuple):
    """The fixed part of a batch of format 2, as Kafka's protocol names it."""

    base_offset: int
    length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    first_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    records: int

    @classmethod
    def of(cls, batch: bytes) -> "Head":
        """Raises struct.error if the batch is too short."""
        return cls(*_HEAD.unpack_from(batch))

    @property
    def end(self) -> int:
        return self.base_offset + self.last_offset_delta + 1

    @property
    def codec(self) -> int:
        """How its records are compressed; 0 is not at all."""
        return self.attributes & CODEC

    @property
    def is_transactional(self) -> bool:
        """Whether it belongs to a transaction."""
        return bool(self.attributes & _TRANSACTIONAL)

    @property
    def is_control(self) -> bool:
        """Whether it marks the end of a transaction."""
        return bool(self.attributes & _CONTROL)

    @property
    def is_append_time(self) -> bool:
        """Whether all of its records have the time at which the broker took them."""
        return bool(self.attributes & _APPEND_TIME)

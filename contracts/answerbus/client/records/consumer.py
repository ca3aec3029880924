"""aiokafka's consumer, which no record can stop."""

from typing import Any, Final

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.consumer.fetcher import Fetcher, FetchResult
from aiokafka.protocol.fetch import FetchRequest

from answerbus.client.records.allowance import Allowance
from answerbus.client.records.batch import Record
from answerbus.client.records.notices import Notices
from answerbus.client.records.partition import PartitionRecords

RECORDS_PER_POLL_MAX: Final = 500  # where the caller does not say


class RecordConsumer(AIOKafkaConsumer):  # type: ignore[misc] # aiokafka has no types
    """Gives each record that can be read, and an Unreadable for what cannot.

    aiokafka raises on a batch that it cannot parse, then and again and for all partitions, and
    unpacks whatever a batch unpacks to. Here its own records of a fetch are replaced, before any is
    parsed, by ours.
    """

    def __init__(self, *topics: str, **options: Any) -> None:
        self.notices = Notices()
        self._allowance = Allowance()
        self._fetching: Fetcher | None = None
        super().__init__(*topics, **{"max_poll_records": RECORDS_PER_POLL_MAX, **options})

    async def getmany(
        self, *places: TopicPartition, timeout_ms: int = 0, max_records: int | None = None
    ) -> dict[TopicPartition, list[Record]]:
        """See aiokafka. Of what is left, partitions that gave nothing come first the next time."""
        self._allowance.renew()
        found: dict[TopicPartition, list[Record]] = await super().getmany(
            *places, timeout_ms=timeout_ms, max_records=max_records
        )
        waiting = self._fetcher._records  # noqa: SLF001 - see the class
        for place in found:
            if place in waiting:
                waiting.move_to_end(place)
        return found

    async def getone(self, *places: TopicPartition) -> Record:
        """See aiokafka."""
        self._allowance.renew()
        return await super().getone(*places)

    def leader_of(self, place: TopicPartition) -> int | None:
        """The broker that leads a partition, as last heard: -1 if none does, None if unknown."""
        leader: int | None = self._client.cluster.leader_for_partition(place)
        return leader

    @property
    def _fetcher(self) -> Any:
        return self._fetching

    @_fetcher.setter
    def _fetcher(self, fetcher: Fetcher | None) -> None:
        """The base class sets it when it starts, before anything is fetched."""
        self._fetching = fetcher
        if fetcher is not None:
            _Replacing(fetcher, self._allowance, self.notices)


class _Replacing:
    """Stands between a fetcher and its client, to see the bytes that were fetched."""

    def __init__(self, fetcher: Fetcher, allowance: Allowance, notices: Notices) -> None:
        self._fetcher, self._client = fetcher, fetcher._client  # noqa: SLF001 - see RecordConsumer
        self._process = fetcher._proc_fetch_request  # noqa: SLF001
        self._allowance, self._notices = allowance, notices
        self._answers: dict[int, Any] = {}  # by the identity of the request
        fetcher._client = self  # noqa: SLF001
        fetcher._proc_fetch_request = self._fetch  # noqa: SLF001

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    async def send(self, node_id: int, request: Any) -> Any:
        """What the client does, and the answer to a fetch is kept for a moment."""
        answer = await self._client.send(node_id, request)
        if isinstance(request, FetchRequest):
            self._answers[id(request)] = answer
        return answer

    async def _fetch(self, assignment: Any, node_id: int, request: FetchRequest) -> bool:
        """What the fetcher does; between the answer and our turn nothing else runs."""
        try:
            has_news: bool = await self._process(assignment, node_id, request)
            answer = self._answers.get(id(request))
        finally:
            self._answers.pop(id(request), None)
        for topic, partitions in answer.topics if answer else ():
            for partition, *_, fetched in partitions:
                self._replace(TopicPartition(topic, partition), fetched)
        return has_news

    def _replace(self, place: TopicPartition, fetched: bytes) -> None:
        result = self._fetcher._records.get(place)  # noqa: SLF001
        if not isinstance(result, FetchResult):
            return
        theirs = result._partition_records  # noqa: SLF001
        if theirs is None or isinstance(theirs, PartitionRecords):
            return
        result._partition_records = PartitionRecords(  # noqa: SLF001
            place,
            fetched,
            theirs.next_fetch_offset,
            theirs._aborted_transactions,  # noqa: SLF001
            theirs._isolation_level,  # noqa: SLF001
            self._allowance,
            self._notices.tell,
        )

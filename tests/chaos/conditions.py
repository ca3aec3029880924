"""Under what a run takes place: the brokers, what workers are given, and who else writes."""

from collections.abc import Iterable, Mapping
from pathlib import Path

from infra.kafka import Cluster
from infra.ports import free_ports
from tests.chaos.audit.history import History, Violation
from tests.chaos.audit.record import Record
from tests.chaos.clocks import Clocks
from tests.chaos.garbage import Garbage, check
from tests.chaos.raw import RawTraffic
from tests.chaos.requests import read_requests
from tests.chaos.rights import WorkersRights
from tests.chaos.stage import Grips
from tests.integration.rights import PASSWORD, PASSWORD_ENV, USER
from tests.integration.secured import sasl_properties
from tests.storms.astray import astray
from tests.storms.proxied import ProxyThread

PROTOCOL = "SASL_PLAINTEXT"
ASTRAY = 0.01  # of the requests of transactions: more, and little else would go on


class Ordinary:
    """Brokers that let everybody in, right clocks, and clients that write what they should."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster

    def kafka(self) -> Mapping[str, str]:
        """The settings by which a worker comes in."""
        return {"bootstrap_servers": self.cluster.bootstrap_servers}

    def environment(self, _slot: int) -> Mapping[str, str]:
        """Variables for the worker in a slot."""
        return {}

    @property
    def variables(self) -> Mapping[str, str]:
        """Those that any process needs to come in."""
        return {}

    def prepare(self) -> Grips | None:
        """The brokers run, and there are topics; gives what faults lay hands on."""
        return None

    def produce_due(self, _now_s: float) -> None:
        """Write what is due beside the requests."""

    @property
    def is_done(self) -> bool:
        """Whether all of that is written."""
        return True

    def calm(self) -> None:
        """From now on no request to a broker is lost; what others write goes on."""

    def requests(self) -> list[Record] | None:
        """The records of the requests topic, where the auditor's client cannot read them."""
        return None

    def summary(self) -> str:
        """How much was disturbed beside the faults, to be put behind the auditor's summary."""
        return ""

    def check(self, _history: History) -> Iterable[Violation]:
        """What the auditor cannot know."""
        return ()

    def close(self) -> None:
        """Let go."""


class Hostile(Ordinary):
    """Garbage among the requests, clocks that jump, rights that go and come, lossy connections."""

    def __init__(
        self,
        seed: int,
        folder: Path,
        brokers: int,
        prefix: str,
        partitions: int,
        garbage: list[Garbage],
    ) -> None:
        """Raises SetupError if clocks cannot be set."""
        ports = free_ports(brokers)
        advertised = {PROTOCOL: ports}
        super().__init__(Cluster(folder, brokers, (PROTOCOL,), sasl_properties(), advertised))
        self._proxies = ProxyThread(self.cluster, ports, PROTOCOL, astray(seed, ASTRAY))
        plain = self.cluster.bootstrap_servers
        self._topic, self._partitions = f"{prefix}.requests.v1", partitions
        self._clocks = Clocks(folder)
        self._rights = WorkersRights(plain, prefix)
        self._raw = RawTraffic(plain, self._topic, garbage)

    def kafka(self) -> Mapping[str, str]:
        """Workers come in by password, so that they have the rights of a user."""
        return {
            "bootstrap_servers": self._proxies.servers,
            "security_protocol": PROTOCOL,
            "sasl_plain_username": USER,
            "sasl_plain_password_env": PASSWORD_ENV,
        }

    @property
    def variables(self) -> Mapping[str, str]:
        """The password."""
        return {PASSWORD_ENV: PASSWORD}

    def environment(self, slot: int) -> Mapping[str, str]:
        """A clock of its own, and the password."""
        return {**self.variables, **self._clocks.environment(slot)}

    def prepare(self) -> Grips:
        """Workers are given their rights, and their way in."""
        self._proxies.start()
        self._rights.give_all()
        return Grips(self._clocks, self._rights)

    def produce_due(self, now_s: float) -> None:
        """Garbage."""
        self._raw.produce_due(now_s)

    @property
    def is_done(self) -> bool:
        """Whether each batch was taken or refused."""
        return self._raw.is_done

    def calm(self) -> None:
        """The proxies pass on everything."""
        self._proxies.calm()

    def requests(self) -> list[Record]:
        """Read by our own client: librdkafka does not get past each of these batches."""
        servers = self.cluster.bootstrap_servers
        return read_requests(servers, self._topic, self._partitions)

    def summary(self) -> str:
        """Garbage that the brokers took; the rest they refused."""
        records = sum(one.garbage.batch.records for one in self._raw.placed)
        lost = self._proxies.disturbed
        return (
            f", {len(self._raw.placed)} batches of garbage with {records} records, "
            f"{lost} requests of transactions held, dropped, repeated or cut off"
        )

    def check(self, history: History) -> Iterable[Violation]:
        """Garbage is told, record by record, where the broker said that it stands."""
        return check(history, self._raw.placed)

    def close(self) -> None:
        """What has not begun is left."""
        self._raw.close()
        self._proxies.close()

"""Whether the group has a coordinator: without one no member joins, and aiokafka asks for ever."""

from collections.abc import Callable

from answerbus.client.bootstrap import AIOKafkaAdminClient
from answerbus.client.bounded import bounded, close
from answerbus.client.bus import START_TIMEOUT_S
from answerbus.client.diagnosis import describe_error
from services.kafka.options import client_options
from services.settings.settings import KafkaSettings
from services.worker.tasks.rounds import rounds

LOOK_EVERY_S = 3.0


class Coordinator:
    """`trouble` is why the group has none; None while it has one, or before it was asked."""

    def __init__(self, settings: KafkaSettings) -> None:
        self.trouble: str | None = None
        self._settings = settings

    async def run(self, is_outside: Callable[[], bool]) -> None:
        """Ask for ever, while the worker is not a member of the group."""

        async def look() -> None:
            if is_outside():
                await self.ask()
            else:
                self.trouble = None

        await rounds("the question for the group's coordinator", look, LOOK_EVERY_S)

    async def ask(self) -> None:
        """Ask once; errors of the client are not raised."""
        admin = AIOKafkaAdminClient(**client_options(self._settings))
        try:
            await bounded(self._find(admin), START_TIMEOUT_S)
        except Exception as error:
            self.trouble = describe_error(error)
        else:
            self.trouble = None
        finally:
            await close(admin.close())

    async def _find(self, admin: AIOKafkaAdminClient) -> None:
        await admin.start()
        await admin.find_coordinator(self._settings.worker_group)

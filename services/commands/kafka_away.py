"""Says that Kafka is away while a command waits for records, and that it is back."""

import time
from collections.abc import Callable

from services.command_line import stderr

AWAY_AFTER_S = 5.0  # a connection that is made again at once is not worth a line


class KafkaAway:
    """Notices for `say`: one each time that Kafka is away, and one when it is back."""

    def __init__(self, servers: str, say: Callable[[str], None]) -> None:
        self._servers, self._say = servers, say
        self._since: float | None = None
        self._is_said = False

    def look(self, *, is_connected: bool, now: float | None = None) -> None:
        """Take in whether there is a connection to a broker now."""
        now = time.monotonic() if now is None else now
        if is_connected:
            if self._is_said:
                self._say(f"Kafka at {self._servers} answers again.")
            self._since, self._is_said = None, False
        elif self._since is None:
            self._since = now
        elif not self._is_said and now - self._since >= AWAY_AFTER_S:
            self._is_said = True
            self._say(f"No connection to Kafka at {self._servers}: this goes on once it is back.")


def warn(text: str) -> None:
    """Print a notice beside the records."""
    stderr().print(text, style="yellow", markup=False)

"""Logs as lines for people on stderr: what others wrote can forge none, nor command a terminal."""

import logging
import sys
import time

from answerbus.masking import Mask
from services.telemetry.logs import RepeatLimitingHandler
from services.text.escaping import plain_line

# Before each further line of a message or a traceback: a line of the log begins with its time.
_FURTHER = "  | "


class TextLines(logging.Formatter):
    """Time, level, message, and the words of an exception, with `mask` put over all of it."""

    converter = staticmethod(time.gmtime)
    default_msec_format = "%s.%03dZ"

    def __init__(self, mask: Mask) -> None:
        super().__init__("%(asctime)s %(levelname)s %(message)s")
        self._mask = mask

    def format(self, record: logging.LogRecord) -> str:
        text = super().format(record)
        if repeated := getattr(record, "repeated", None):
            text += f" ({repeated} times)"
        return f"\n{_FURTHER}".join(map(plain_line, self._mask(text).split("\n")))


def start_text_logging(mask: Mask) -> None:
    """Send everything to stderr, unless a tool's module has set up its own logging."""
    handler = RepeatLimitingHandler(sys.stderr)
    handler.setFormatter(TextLines(mask))
    logging.basicConfig(level=logging.INFO, handlers=[handler])

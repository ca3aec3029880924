"""A toolset that repeats its input, to try agents and tool servers with."""

from typing import Annotated

from pydantic import Field

from answerbus.limits import REASON_BYTES_MAX
from answerbus.tools.toolset import Toolset

ECHO_CHARS_MAX = REASON_BYTES_MAX

echo = Toolset("echo")


@echo.tool(name="echo")
def say_again(
    phrase: Annotated[str, Field(max_length=ECHO_CHARS_MAX)],
) -> str:
    """Say a phrase again, word for word."""
    return phrase

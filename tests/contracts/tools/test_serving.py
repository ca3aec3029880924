"""`serve` refuses what a server could not work with, before it connects."""

import pytest

from answerbus.tools import Toolset
from answerbus.tools.serving import serve


def test_a_server_without_a_place_for_a_call_is_refused() -> None:
    with pytest.raises(ValueError, match="`concurrency` is 1 or more"):
        serve(Toolset("deeds"), "localhost:1", concurrency=0)

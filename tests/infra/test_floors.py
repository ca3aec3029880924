"""The command that runs others with the oldest libraries that the client takes."""

import os

from infra import floors


def test_the_oldest_libraries_come_before_all_others() -> None:
    first = str(floors.FOLDER.resolve())

    assert floors.environment({"A": "1"}) == {"A": "1", "PYTHONPATH": first}
    found = floors.environment({"PYTHONPATH": "mine"})
    assert found == {"PYTHONPATH": os.pathsep.join([first, "mine"])}

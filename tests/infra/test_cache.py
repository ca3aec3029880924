"""What the cache says where it cannot be written."""

from pathlib import Path

import pytest

from infra.cache import cache_folder, file_lock
from infra.setup_error import SetupError


def test_a_cache_that_cannot_be_written_is_named_with_the_remedy(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "file"
    file.touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(file))

    with pytest.raises(SetupError) as refused, file_lock(cache_folder() / "kafka.lock"):
        pass

    expected = f"{file}/answerbus cannot be written (Not a directory): let XDG_CACHE_HOME name"
    assert str(refused.value) == f"{expected} another folder."

"""The current content of the settings file, for repeated reading."""

from pathlib import Path

from services.secret_file import file_state
from services.settings import Settings, file_of, from_environment


class SettingsFile:
    """The file that `--config` names, or the one that stands in for it; variables count too."""

    def __init__(self, path: Path | None) -> None:
        self._path = path

    @property
    def state(self) -> tuple[int, ...]:
        """What changes with the file; nothing where it is not there."""
        return file_state(file_of(self._path))

    def read(self) -> Settings:
        """What it says now. Raises SetUpError."""
        return from_environment(self._path)

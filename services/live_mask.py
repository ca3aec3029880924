"""A mask that learns of the secrets in files as these change."""

from collections.abc import Iterable, Sequence

from answerbus.masking import Mask
from services.secret_file import SecretFile
from services.settings import Settings
from services.settings_secrets import secret_files_of, secrets_of


class LiveMask(Mask):
    """Replaces the given secrets, and all values that the files are known to have had."""

    def __init__(self, secrets: Iterable[str | None], files: Sequence[SecretFile]) -> None:
        self._secrets: tuple[str | None, ...] = ()
        self._files: tuple[SecretFile, ...] = ()
        self._known: tuple[tuple[str, ...], ...] = ()
        self.learn(secrets, files)

    def learn(self, secrets: Iterable[str | None], files: Sequence[SecretFile]) -> None:
        """Mask these too; what was a secret once is masked for good."""
        self._secrets = tuple(dict.fromkeys((*self._secrets, *secrets)))
        self._files = tuple(dict.fromkeys((*self._files, *files)))
        self._learn()

    def __call__(self, text: str) -> str:
        """See Mask."""
        for file in self._files:
            _ = file.value  # looks at the file
        if self._known != tuple(file.values for file in self._files):
            self._learn()
        return super().__call__(text)

    def _learn(self) -> None:
        self._known = tuple(file.values for file in self._files)
        super().__init__([*self._secrets, *(value for values in self._known for value in values)])


def mask_of(settings: Settings) -> LiveMask:
    """Masks all secrets that the settings lead to, in variables and in files."""
    return LiveMask(secrets_of(settings), secret_files_of(settings))

"""The secret of marks in prompts, where a variable is named for it."""

import pytest

from services.settings.settings import Settings, SetUpError
from services.worker.adapters.kafka.prompt_secret import prompt_secret

NAMED = Settings.model_validate({"worker": {"prompt_secret_env": "MARKS"}})


async def test_it_is_what_the_variable_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MARKS", "of this deployment")

    assert await prompt_secret(NAMED) == b"of this deployment"


@pytest.mark.parametrize("value", ["", None])
async def test_a_variable_that_is_named_must_be_set(
    monkeypatch: pytest.MonkeyPatch, value: str | None
) -> None:
    """Else one worker without it would make other marks than all others."""
    monkeypatch.delenv("MARKS", raising=False)
    if value is not None:
        monkeypatch.setenv("MARKS", value)

    with pytest.raises(SetUpError, match="MARKS"):
        await prompt_secret(NAMED)

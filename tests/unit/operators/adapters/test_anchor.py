"""An anchor is there whole or not at all."""

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from answerbus.client.bus import Bus
from answerbus.client.errors import BusUnavailable
from services.operators.adapters import evidence
from services.operators.adapters.signing import EvidenceSigner
from tests.contracts.evidence.packs import KEY, public
from tests.unit.worker.builders import NOW


def test_an_anchor_that_could_not_be_written_is_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def heads(_bus: object) -> AsyncIterator[tuple[str, tuple[str, ...], str]]:
        yield "attempts", ("a" * 100,), "sha256:" + "0" * 64

    def full(path: Path, mode: str) -> Any:
        path.touch(exist_ok=False)
        return os.fdopen(os.open("/dev/full", os.O_WRONLY), mode.replace("x", "w"))

    monkeypatch.setattr(evidence, "_heads", heads)
    monkeypatch.setattr(Path, "open", full)
    bus: Any = type("Bus", (), {"prefix": "answerbus"})()
    signer = EvidenceSigner(public(), KEY.sign)

    with pytest.raises(OSError, match="No space"):
        asyncio.run(evidence.anchor(bus, tmp_path, signer, "ops", lambda: NOW))

    assert list(tmp_path.iterdir()) == []


def test_no_anchor_is_made_without_the_right_to_see_the_ledger(tmp_path: Path) -> None:
    """Kafka hides topics from users without Describe; an anchor without heads would always hold."""

    class Hidden(Bus):
        async def _counts(self) -> dict[str, int]:
            return {}

    bus, signer = Hidden("localhost:1", "acme", {}), EvidenceSigner(public(), KEY.sign)

    with pytest.raises(BusUnavailable, match=r"no topic acme\.ledger\.v1 .* or no right to see it"):
        asyncio.run(evidence.anchor(bus, tmp_path, signer, "ops", lambda: NOW))

    assert list(tmp_path.iterdir()) == []

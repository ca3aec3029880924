"""The verifier of evidence broken on purpose: a forgery is missed, so its test is none in vain."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from unittest import mock

import pytest

from answerbus.evidence import pack_file, verifier
from answerbus.evidence.chains import ChainCheck
from answerbus.evidence.record_digest import record_of
from answerbus.evidence.verifier import _Check
from tests.contracts.evidence.packs import OTHER_KEY, public, signed, whole, written
from tests.contracts.evidence.test_forgeries import SIGNED_AGAIN, kinds

Patch = Callable[[], AbstractContextManager[object]]


def _same_digest(line: bytes) -> tuple[dict[str, object], str] | None:
    read = record_of(line)
    return read and (read[0], str(read[0].get("hash")))


MUTATIONS: dict[str, tuple[Patch, str]] = {
    "the hash of a record is believed": (
        lambda: mock.patch.object(verifier, "record_of", _same_digest),
        "changed_record",
    ),
    "any record may begin its chain again": (
        lambda: mock.patch.object(ChainCheck, "_starts_again", return_value=True),
        "dropped_record",
    ),
    "broken links are not looked into": (
        lambda: mock.patch.object(_Check, "name_mismatches"),
        "reordered_record",
    ),
    "heads are not compared": (
        lambda: mock.patch.object(_Check, "_head"),
        "dropped_tail",
    ),
    "texts are listed by any digest": (
        lambda: mock.patch.object(_Check, "_text"),
        "definition_replaced",
    ),
    "what is missing is not noticed": (
        lambda: mock.patch.object(_Check, "end"),
        "definition_missing",
    ),
}


@pytest.mark.parametrize("name", MUTATIONS)
def test_a_broken_verifier_misses_a_forgery(name: str, tmp_path: Path) -> None:
    patch, kind = MUTATIONS[name]
    missed = 0
    for forge, named in SIGNED_AGAIN:
        if named == kind:
            files = whole()
            forge(files)
            pack = written(tmp_path / "pack.zip", signed(files))
            assert kind in kinds(verifier.verify(pack, [public()]))
            with patch():
                missed += kind not in kinds(verifier.verify(pack, [public()]))

    assert missed


def test_a_signature_that_is_not_checked_lets_any_key_pass(tmp_path: Path) -> None:
    members = signed(whole())
    members["manifest.sig"] = signed(whole(), OTHER_KEY)["manifest.sig"]
    pack = written(tmp_path / "pack.zip", members)
    assert kinds(verifier.verify(pack, [public()])) == {"bad_signature"}

    with mock.patch.object(pack_file, "is_signed", return_value=True):
        assert kinds(verifier.verify(pack, [public()])) == set()

"""What goes between an event loop and its child process: pickled, contracts by their names."""

import copyreg
import io
import pickle
from functools import cache
from typing import Any

from answerbus.contract import Contract
from answerbus.plugins import installed
from answerbus.registry import Registry
from answerbus.request import ContractRef


@cache
def _registry() -> Registry:
    return installed()


def _contract(name: str, version: int) -> Contract[Any]:
    found = _registry().find(ContractRef(name=name, version=version))
    if found is None:
        raise LookupError(f"contract {name} v{version} is not installed")
    return found


class _Pickler(pickle.Pickler):
    """A contract is code of this installation, and so is the set of all of them."""

    dispatch_table = copyreg.dispatch_table | {
        Contract: lambda contract: (_contract, (contract.name, contract.version)),
        Registry: lambda _: (_registry, ()),
    }


def dumps(value: object) -> bytes:
    """The bytes of one frame."""
    written = io.BytesIO()
    _Pickler(written, pickle.HIGHEST_PROTOCOL).dump(value)
    return written.getvalue()


def loads(frame: bytes) -> Any:
    return pickle.loads(frame)  # noqa: S301 - our own process wrote it

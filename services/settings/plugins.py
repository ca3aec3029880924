"""The contracts of this installation, loaded once by each composition root."""

from typing import Any

from answerbus.contract import Contract
from answerbus.plugins import PluginError, installed, with_distributions
from answerbus.registry import Registry
from services.settings.settings import SetUpError


def registry() -> Registry:
    """Those that ship and those of plugins. Raises SetUpError with the distribution at fault."""
    try:
        return installed()
    except PluginError as error:
        raise SetUpError(str(error)) from error


def contracts_with_distributions() -> list[tuple[Contract[Any], str]]:
    """The same, each with the distribution that brings it. Raises SetUpError."""
    try:
        return with_distributions()
    except PluginError as error:
        raise SetUpError(str(error)) from error

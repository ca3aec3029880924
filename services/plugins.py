"""The contracts that this installation knows, for each composition root to load once."""

from answerbus.plugins import PluginError, installed
from answerbus.registry import Registry
from services.settings import SetUpError


def registry() -> Registry:
    """Those that ship and those of plugins. Raises SetUpError with the distribution at fault."""
    try:
        return installed()
    except PluginError as error:
        raise SetUpError(str(error)) from error

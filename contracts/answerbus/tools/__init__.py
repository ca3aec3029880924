"""Tools that agents call over the bus: a toolset of functions, and the server that runs them.

from answerbus.tools import Toolset, ToolCall, ToolError
from answerbus.tools import Happened, DidNotHappen, NotKnown  # findings of a reconciler
"""

from answerbus.reconcile import DidNotHappen, Happened, NotKnown
from answerbus.tools.call import ToolCall
from answerbus.tools.core.failing import ToolError
from answerbus.tools.toolset import Toolset

__all__ = ["DidNotHappen", "Happened", "NotKnown", "ToolCall", "ToolError", "Toolset"]

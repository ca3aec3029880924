"""Tools that agents call over the bus: a toolset of functions, and the server that runs them.

from answerbus.tools import Toolset, ToolCall, ToolError
"""

from answerbus.tools.call import ToolCall
from answerbus.tools.core.failing import ToolError
from answerbus.tools.toolset import Toolset

__all__ = ["ToolCall", "ToolError", "Toolset"]

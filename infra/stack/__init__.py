"""A whole answerbus on this machine without Docker: broker, model, tool server, two workers."""

from infra.stack.place import Place
from infra.stack.stack import Stack, find_stack, start_stack

__all__ = ["Place", "Stack", "find_stack", "start_stack"]

"""The dialect `plain`: OpenAI's form of a schema, with types, members and choices alone.

Servers that speak OpenAI's API refuse different rules of values, or take them and enforce none.
"""

from services.worker.dialects import openai
from services.worker.dialects.compiler.shapes.rules import Rules

DIALECT = "plain"
RULES = Rules(dialect=DIALECT, excess=openai.excess, is_long_enum=openai.is_long_enum)

"""The dialect `vllm`: the keywords that both grammar engines of vLLM enforce."""

from dataclasses import replace
from functools import partial

from services.worker.dialects import llama_cpp
from services.worker.dialects.compiler.parsing.bounds import NUMBER_BOUNDS
from services.worker.dialects.compiler.patterns import spelled_out

DIALECT = "vllm"
BOUNDS = NUMBER_BOUNDS - {"multipleOf"}  # with it, vLLM refuses a request where xgrammar is set
REPEATS_MAX = 128  # of a part of a pattern: of more, xgrammar makes no grammar
RULES = replace(
    llama_cpp.RULES,
    dialect=DIALECT,
    integer_bounds=BOUNDS,
    number_bounds=BOUNDS,
    integer_max=None,
    pattern=partial(spelled_out, count_max=REPEATS_MAX),
    text_lengths={},  # in a text with one, xgrammar allows no quote, backslash or line break
)

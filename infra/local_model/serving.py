"""The model server itself: llama.cpp's HTTP server inside of this process."""

import importlib
import importlib.util
import os
import threading
from pathlib import Path
from typing import Any

from infra.ports import PortTakenError, is_free
from infra.setup_error import SetupError

ALIAS = "local-small"
SLOTS = 2
CONTEXT_TOKENS = 8192  # shared by the slots
THREADS_MAX = 4


def require_runtime() -> None:
    """SetupError if the server's package is not installed; cheap, to be asked before a fetch."""
    if importlib.util.find_spec("xllamacpp") is None:
        raise SetupError(
            "The local model needs the extra local-llm: pip install 'answerbus-services[local-llm]'"
        )


def serve(model: Path, host: str, port: int, alias: str = ALIAS) -> None:
    """Serve `model` in this process for ever; `port` 0 takes a free one; says when it is ready."""
    if port and not is_free(port, host):
        raise PortTakenError(port)
    # OpenMP spins by default, which starves every other process; it reads this once, when loaded.
    os.environ["OMP_WAIT_POLICY"] = "PASSIVE"  # noqa: TID251 - there is no other way in
    try:
        llama = importlib.import_module("xllamacpp")
    except ImportError as error:
        raise SetupError(
            f"xllamacpp cannot be loaded ({error}); on a slim Linux: apt-get install libgomp1"
        ) from error
    server = llama.Server(_parameters(llama, model, host, port, alias))
    print(f"{alias} is ready at {server.listening_address}/v1", flush=True)
    threading.Event().wait()


def _parameters(llama: Any, model: Path, host: str, port: int, alias: str) -> Any:
    threads = min(THREADS_MAX, os.cpu_count() or THREADS_MAX)
    parameters = llama.CommonParams()
    parameters.model.path = str(model)
    parameters.n_parallel, parameters.n_ctx = SLOTS, CONTEXT_TOKENS
    parameters.cpuparams.n_threads = parameters.cpuparams_batch.n_threads = threads
    parameters.hostnames, parameters.port = [host], port
    parameters.model_alias = {alias}
    parameters.use_jinja, parameters.endpoint_metrics, parameters.ui = True, True, False
    parameters.verbosity = 0
    return parameters

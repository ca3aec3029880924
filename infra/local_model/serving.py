"""The model server itself: llama.cpp's HTTP server inside of this process."""

import http.client
import importlib
import importlib.util
import os
import sys
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from infra.local_model.fetch import fetch
from infra.local_model.models import MODELS
from infra.local_model.report import Report
from infra.ports import LOOPBACK, PortTakenError, free_ports, is_free
from infra.server_process import ServerProcess
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


START_LIMIT_S = 60.0
STOP_LIMIT_S = 10.0
_HEALTH_LIMIT_S = 2.0
_CHECKOUT = Path(__file__).parents[2]
LOGS = Path(".run/local-model")


@dataclass(frozen=True)
class LocalModel:
    """A model server of this process; it answers to the name ALIAS."""

    port: int
    process: ServerProcess

    @property
    def base_url(self) -> str:
        """The base address for an OpenAI client."""
        return f"http://{LOOPBACK}:{self.port}/v1"

    @property
    def name(self) -> str:
        """The model's name in answers; any name is accepted in requests."""
        return ALIAS

    def healthy(self) -> bool:
        """Whether the model is loaded and served now."""
        connection = http.client.HTTPConnection(LOOPBACK, self.port, timeout=_HEALTH_LIMIT_S)
        try:
            connection.request("GET", "/health")
            return connection.getresponse().status == http.client.OK
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()

    def stop(self) -> None:
        """End it in good order, by force after STOP_LIMIT_S."""
        self.process.stop(STOP_LIMIT_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def start_model(port: int = 0, logs: Path = LOGS, report: Report | None = None) -> LocalModel:
    """Fetch the model if need be, serve it on `port` (0 = a free one), return once it is ready.

    SetupError: no file, a taken port, or the server ended early (with the end of its log).
    """
    require_runtime()
    if port and not is_free(port):
        raise PortTakenError(port)
    fetch(MODELS["small"], report)
    port = port or free_ports(1)[0]
    logs.mkdir(parents=True, exist_ok=True)
    serve = ["infra.local_model", "serve", "--port", str(port)]
    search = os.pathsep.join(filter(None, [str(_CHECKOUT), os.getenv("PYTHONPATH")]))
    process = ServerProcess.start(
        [sys.executable, "-m", *serve],
        log=logs / "local-model.log",
        marker=" ".join(serve),
        environment={**os.environ, "PYTHONPATH": search},  # noqa: TID251 - it inherits the rest
    )
    served = LocalModel(port, process)
    process.wait_until(served.healthy, START_LIMIT_S)
    return served

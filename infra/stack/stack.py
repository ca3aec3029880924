"""Broker, model, topics and workers: starts what does not run yet, finds it again, stops it."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from infra.kafka import Broker, find_broker, start_broker
from infra.local_model import start_model
from infra.local_model.report import Report
from infra.local_model.serving import ALIAS
from infra.ports import LOOPBACK
from infra.stack import commands, settings_file
from infra.stack.kept import Kept, find
from infra.stack.place import CALL_S, Place

MODEL_STOP_LIMIT_S = 10.0
WORKER_STOP_LIMIT_S = CALL_S + 10.0  # it finishes its calls in flight
TOOLS_STOP_LIMIT_S = 10.0
TOOLS, TOOLSET = "tools", "answerbus.tools.echo:echo"

Say = Callable[[str], None]


@dataclass(frozen=True)
class Stack:
    """What runs at a place now; None and less workers than wanted are what does not run."""

    place: Place
    broker: Broker | None
    model: Kept | None
    workers: Sequence[Kept]
    tools: Kept | None = None

    @property
    def bootstrap_servers(self) -> str:
        """The bootstrap servers for Kafka clients."""
        return self.broker.bootstrap_servers if self.broker else "(no broker)"

    @property
    def model_url(self) -> str:
        """The base address for OpenAI clients."""
        return f"http://{LOOPBACK}:{self.model.port}/v1" if self.model else "(no model)"

    def stop(self) -> None:
        """Stop all of it, workers first, even if stopping one of them fails."""
        with ExitStack() as ending:  # last in, first out
            if self.broker:
                ending.callback(self.broker.stop)
            if self.model:
                ending.callback(self.model.stop, MODEL_STOP_LIMIT_S)
            if self.tools:
                ending.callback(self.tools.stop, TOOLS_STOP_LIMIT_S)
            for worker in self.workers:
                ending.callback(worker.stop, WORKER_STOP_LIMIT_S)


def find_stack(place: Place) -> Stack:
    found = (find(place.folder, name) for name in _names(place))
    return Stack(
        place,
        find_broker(place.kafka),
        find(place.folder, "model"),
        [worker for worker in found if worker],
        find(place.folder, TOOLS),
    )


def start_stack(place: Place, say: Say, report: Report | None = None) -> Stack:
    """Start what does not run yet, and return once every partition has an open lane.

    SetupError says what is in the way; what was started until then is stopped again.
    """
    place.folder.mkdir(parents=True, exist_ok=True)
    with ExitStack() as undo:
        broker = find_broker(place.kafka)
        if broker is None:
            broker = start_broker(place.kafka, place.kafka_port, say=say)
            undo.callback(broker.stop)
        model = find(place.folder, "model")
        if model is None:
            say("Starting the model")
            model = _start_model(place, report)
            undo.callback(model.stop, MODEL_STOP_LIMIT_S)
        stack = Stack(place, broker, model, ())
        _write_settings(stack)
        say("Applying the topics")
        commands.run_answerbus(place.config, "topics", "apply")
        tools = _start_tools(place, say, undo)
        workers = _start_workers(place, say, undo)
        stack = Stack(place, broker, model, workers, tools)
        _write_settings(stack)  # again, with the addresses of the workers
        undo.pop_all()
        return stack


def _write_settings(stack: Stack) -> None:
    workers = [f"http://{LOOPBACK}:{worker.port}" for worker in stack.workers]
    place = stack.place
    text = place.settings(stack.bootstrap_servers, stack.model_url, ALIAS, workers)
    settings_file.write(place.config, text)


def _start_model(place: Place, report: Report | None) -> Kept:
    served = start_model(place.model_port, logs=place.folder, report=report)
    model = Kept("model", served.port, served.process)
    model.note(place.folder)
    return model


def _start_tools(place: Place, say: Say, undo: ExitStack) -> Kept:
    """Before the workers, so that they find its card."""
    tools = find(place.folder, TOOLS)
    if tools is None:
        say("Serving the toolset echo")
        tools = commands.launch_tool_server(TOOLS, TOOLSET, place.config, place.folder)
        undo.callback(tools.stop, TOOLS_STOP_LIMIT_S)
        tools.note(place.folder)
    return tools


def _start_workers(place: Place, say: Say, undo: ExitStack) -> Sequence[Kept]:
    """Workers that run with other settings are restarted."""
    workers, settings = [], settings_file.digest(place.config)
    say(f"Starting {place.workers} workers")
    for name in _names(place):
        worker = find(place.folder, name)
        if worker is not None and worker.settings != settings:
            say(f"Restarting {name}: the settings have changed")
            worker.stop(WORKER_STOP_LIMIT_S)
            worker = None
        if worker is None:
            worker = commands.launch_worker(name, place.config, place.folder)
            undo.callback(worker.stop, WORKER_STOP_LIMIT_S)
            worker.note(place.folder)
        workers.append(worker)
    for worker in workers:
        commands.await_worker(worker)
    commands.await_lanes(workers, settings_file.partitions(place.config))
    return workers


def _names(place: Place) -> Sequence[str]:
    return [f"worker-{number}" for number in range(1, place.workers + 1)]

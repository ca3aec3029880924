"""Where a stack lives: its folder, its ports, and the settings file that its workers read."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from infra.local_model.serving import CONTEXT_TOKENS, SLOTS

CALL_S = 120.0  # of the model, on a machine that is slow or busy

_SETTINGS = """\
# Written by answerbus's own stack. What you change here stays: only the addresses of broker,
# model and workers are kept up to date. Use it from another terminal:
#   answerbus watch --config {file}

[kafka]
bootstrap_servers = "{bootstrap_servers}"

[worker]
retry_first_s = 0.2
drain_s = {drain_s}

[console]
workers = {console_workers}

[profiles.default]
provider = "openai"
base_url = "{model_url}"
dialect = "llama_cpp"
model = "{model}"
temperature = 0
timeout_s = {call_s:<26}# for machines that are slow or busy
max_in_flight = 2                     # the model server's slots
max_output_tokens = {output_tokens}
context_tokens = {context_tokens}                 # of one slot: runs shorten old results to fit
show_schema = {show_schema}

[agents.helper]
instructions = "Answer people yourself. Call the echo tool only where they ask for an echo, and \
then answer with the phrase that it gave."
tools = ["echo.echo"]                 # the toolset `echo` is served beside the workers
steps_max = {steps_max}
"""


@dataclass(frozen=True)
class Place:
    """Port 0 takes a free one; `profiles` is TOML that is added to the settings.

    `output_tokens` and `show_schema` are settings of the default profile: the small model answers
    better if it is shown the schema, and sooner if it is not. `steps_max` is a setting of the agent
    `helper`. Stopping takes at most `drain_s` seconds longer than it must, so that calls in flight
    can end.
    """

    folder: Path
    kafka_port: int = 0
    model_port: int = 0
    workers: int = 2
    output_tokens: int = 512
    show_schema: bool = True
    drain_s: float = CALL_S
    steps_max: int = 6
    profiles: str = ""

    @property
    def config(self) -> Path:
        """The settings file of workers and command line."""
        return self.folder / "answerbus.toml"

    @property
    def kafka(self) -> Path:
        return self.folder / "kafka"

    def settings(
        self, bootstrap_servers: str, model_url: str, model: str, workers: Sequence[str] = ()
    ) -> str:
        """The content of the settings file; `workers` are addresses of their health."""
        text = _SETTINGS.format(
            file=self.config,
            bootstrap_servers=bootstrap_servers,
            console_workers=json.dumps(list(workers)),  # which is TOML as well
            model_url=model_url,
            model=model,
            output_tokens=self.output_tokens,
            context_tokens=CONTEXT_TOKENS // SLOTS,
            drain_s=self.drain_s,
            call_s=CALL_S,
            steps_max=self.steps_max,
            show_schema=str(self.show_schema).lower(),
        )
        return f"{text}\n{self.profiles}".rstrip() + "\n"

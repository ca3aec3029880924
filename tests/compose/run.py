"""docker-compose.yml without an engine: `make compose`.

Its services' own commands and settings, as processes. `default`: a broker, the topics, a worker, a
tool server. `cluster`: certificates, three brokers with TLS and passwords, rights, and the same
programs as users of their own. In both a question is answered, and an agent that has a tool called.
`observability`: `default`, a collector that takes its spans, and a Prometheus that scrapes it.
Only places are others: ports, folders, the model.
"""

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from rich.console import Console

from tests.compose.machine import LIMIT_S, Machine
from tests.compose.model import ANSWER, PHRASE, model
from tests.compose.observing import log_of

EXIT_SET_UP = 3
CONFIG = ("--config", "answerbus.toml")
QUESTION = ("ask", "Name an even number.", *CONFIG)
SPAN = "answer request"
ANSWERED = "answerbus_requests_received_total > 0"
RUN = ("ask", "Say it.", "--agent", "helper", *CONFIG)
BROKERS_OF = {"observability": "default"}  # it has none of its own
Say = Callable[[str], None]


def default(machine: Machine, say: Say) -> None:
    """As `docker compose up`; the questions are those of a terminal."""
    machine.start_brokers()
    say("a broker")
    start_programs(machine, say, prefix="")
    ask(machine, "worker", QUESTION, ANSWER)
    say("an answer")
    ask(machine, "worker", RUN, PHRASE)
    say("an answer of the agent, by its tool")


def cluster(machine: Machine, say: Say) -> None:
    """As `docker compose --profile cluster up`."""
    machine.make_certificates()
    say("an authority and three certificates")
    machine.start_brokers()
    say("three brokers with TLS and passwords")
    machine.grant_rights()
    say("rights of four users")
    start_programs(machine, say, prefix="cluster-")
    ask(machine, "cluster-app", (), ANSWER)
    say("an answer to an app of its own")
    ask(machine, "cluster-app", RUN, PHRASE)
    say("an answer of the agent, by its tool")
    refused = machine.run("cluster-worker", user="cluster-app")
    assert refused.returncode == EXIT_SET_UP, refused
    say("and no worker as that user")


def observability(machine: Machine, say: Say) -> None:
    """As `docker compose --profile default --profile observability up`."""
    machine.start_brokers()
    collector = machine.start_collector()
    say("a broker and a collector")
    start_programs(machine, say, prefix="")
    prometheus, asked = machine.start_prometheus()
    say("a Prometheus with our alerts")
    ask(machine, "worker", QUESTION, ANSWER)
    collector.wait_until(lambda: SPAN in log_of(collector), LIMIT_S)
    say("spans of an answer, at the collector")
    prometheus.wait_until(lambda: bool(asked.ask("query", query=ANSWERED)["result"]), LIMIT_S)
    say("and its metrics, at Prometheus")


def start_programs(machine: Machine, say: Say, prefix: str) -> None:
    """Topics, a tool server, and a worker, until that one's own check finds it healthy."""
    done = machine.run(f"{prefix}topics")
    assert done.returncode == 0, done
    say("all topics")
    machine.start(f"{prefix}tools")
    worker = machine.start(f"{prefix}worker")
    worker.wait_until(lambda: machine.is_healthy(f"{prefix}worker"), LIMIT_S)
    say("a tool server, and a worker that is healthy")


def ask(machine: Machine, name: str, words: tuple[str, ...], expected: str) -> None:
    """With the variables of a service; by its own command, if there are no words."""
    asked = machine.run(name, *words)
    assert asked.stdout.strip() == expected, asked


PROFILES = {"default": default, "cluster": cluster, "observability": observability}


def main(profiles: list[str], say: Say) -> None:
    """All of these, or each. Raises what went wrong."""
    began = time.monotonic()
    for profile in profiles or PROFILES:

        def told(what: str, profile: str = profile) -> None:
            say(f"{time.monotonic() - began:5.1f} s  {profile}: {what}")

        with (
            tempfile.TemporaryDirectory(prefix="compose-") as folder,
            model() as url,
            Machine(BROKERS_OF.get(profile, profile), Path(folder), url) as machine,
        ):
            PROFILES[profile](machine, told)


if __name__ == "__main__":
    main(sys.argv[1:], Console(highlight=False, soft_wrap=True).print)

"""All contestants of the benchmark of agents that are there."""

from infra.setup_error import SetupError
from tests.benchmarks.agents.entrant import Entrant
from tests.benchmarks.agents.product import Product
from tests.benchmarks.agents.rivals import Calfkit, LangGraph
from tests.benchmarks.rig import Rig
from tests.benchmarks.rivals.place import rivals_python
from tests.benchmarks.rivals.postgres import Postgres


def entrants(rig: Rig) -> list[Entrant]:
    """The product first. A rival that cannot be had is left out, with one line."""
    found: list[Entrant] = [Product()]
    try:
        python = rivals_python()
    except (SetupError, OSError) as reason:
        rig.say(f"without Calfkit and LangGraph: {reason}")
        return found
    found.append(Calfkit(python))
    try:
        database = Postgres(rig.folder / "postgres.log")
    except (SetupError, OSError) as reason:
        rig.say(f"without LangGraph: {reason}")
        return found
    rig.stack.callback(database.stop)
    return [*found, LangGraph(python, database)]

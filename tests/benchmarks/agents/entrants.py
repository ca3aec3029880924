"""All contestants of the benchmark of agents that are there."""

from infra.setup_error import SetupError
from tests.benchmarks.agents.entrant import Entrant
from tests.benchmarks.agents.product import Product
from tests.benchmarks.agents.rivals import Calfkit, InProcess
from tests.benchmarks.rig import Rig
from tests.benchmarks.rivals.place import rivals_python
from tests.benchmarks.rivals.postgres import Postgres


def entrants(rig: Rig) -> list[Entrant]:
    """The product first. A rival that cannot be had is left out, with one line."""
    found: list[Entrant] = [Product()]
    try:
        python = rivals_python()
    except (SetupError, OSError) as reason:
        rig.say(f"without Calfkit, LangGraph and DBOS: {reason}")
        return found
    found.append(Calfkit(python))
    try:
        database = Postgres(rig.folder / "postgres.log")
    except (SetupError, OSError) as reason:
        rig.say(f"without LangGraph and DBOS: {reason}")
        return found
    rig.stack.callback(database.stop)
    found.append(InProcess("LangGraph 1.2, PostgreSQL", "langgraph_agent.py", python, database))
    found.append(InProcess("DBOS 3.4, PostgreSQL", "dbos_agent.py", python, database))
    return found

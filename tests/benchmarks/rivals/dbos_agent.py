"""DBOS with its PostgreSQL database as an entrant; in an environment of its own.

    python dbos_agent.py --database URL --base-url URL OPTIONS

A run is a workflow; each call of the model, and each call of a tool, is a step of it. All are in
one process. A workflow that is open in the database at the start goes on from its last step.
"""

import asyncio

from dbos import DBOS, SetWorkflowID
from process_agent import CONNECTIONS, Agent, asked, drive, options_of_trial


def workflow_of(agent):
    @DBOS.step()
    async def model(messages):
        return await agent.ask(messages)

    @DBOS.step()
    async def tool(call):
        return await agent.call(call)

    @DBOS.workflow()
    async def run(name):
        messages = [asked(name)]
        while True:
            message = await model(messages)
            messages.append(message)
            calls = message.get("tool_calls")
            if not calls:
                return
            messages += await asyncio.gather(*map(tool, calls))

    return run


async def main(options):
    DBOS(
        config={
            "name": "bench",
            "system_database_url": options.database,
            "dbos_system_schema": options.name,  # at the start it goes on with all that is in one
            "sys_db_pool_size": CONNECTIONS,
            "log_level": "ERROR",
        }
    )
    run = workflow_of(Agent(options))
    DBOS.launch()
    if options.prepare:
        return

    async def work(name, is_new):
        del is_new  # an id that it knows is not started again
        with SetWorkflowID(name):
            handle = await DBOS.start_workflow_async(run, name)
        await handle.get_result()

    await drive(options, work)


if __name__ == "__main__":
    asyncio.run(main(options_of_trial()))

"""`answerbus replay` and its commands."""

import typer

from services.commands.replay.dismissing import dismiss, reopen
from services.commands.replay.files import export, import_
from services.commands.replay.inspection import show
from services.commands.replay.listing import groups, list_, status
from services.commands.replay.running import dry_run, run

app = typer.Typer(
    help="Look at dead letters, send them again, put them aside.", no_args_is_help=True
)
app.command()(groups)
app.command(name="list")(list_)
app.command()(show)
app.command()(dry_run)
app.command()(run)
app.command()(dismiss)
app.command()(reopen)
app.command()(status)
app.command()(export)
app.command(name="import")(import_)

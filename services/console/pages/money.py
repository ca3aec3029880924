"""The pages of money, and the same figures for programs."""

from aiohttp import web
from pydantic_core import to_json

from services.console.context import CONTEXT
from services.console.figures.outcome_charts import spend_figure
from services.console.figures.spend_report import LINES_MAX, spend_report
from services.console.figures.spend_rows import by_contract, by_label, by_model, by_workflow
from services.console.pages.render import page
from services.console.pages.window import asked_time
from services.console.views.units import by_caches
from services.text.escaping import plain_json

ROWS_SHOWN = 10  # contracts and models; the others are folded away
VALUES_SHOWN, WORKFLOWS_SHOWN, WORKFLOWS_LISTED = 6, 8, 50


async def money(request: web.Request) -> web.Response:
    """Usage and charges, and for what."""
    asked, board = asked_time(request), request.app[CONTEXT].feed.state.board
    window = asked.window
    return page(
        request,
        "money.html",
        **asked.shown,
        spend=spend_figure(window),
        total=window.total.spent,
        caches=by_caches(window.total.spent.cache_saved_micro_usd),
        contracts=by_contract(window.total, board.schema_labels),
        models=by_model(window.total),
        labels=by_label(board, window, VALUES_SHOWN),
        workflows=by_workflow(board, window, WORKFLOWS_SHOWN),
        rows_shown=ROWS_SHOWN,
    )


async def workflows(request: web.Request) -> web.Response:
    """The workflows that cost most."""
    asked, board = asked_time(request), request.app[CONTEXT].feed.state.board
    return page(
        request,
        "money_workflows.html",
        **asked.shown,
        workflows=by_workflow(board, asked.window, WORKFLOWS_LISTED),
    )


async def data(request: web.Request) -> web.Response:
    """All of it, for programs."""
    asked, board = asked_time(request), request.app[CONTEXT].feed.state.board
    report = to_json(spend_report(board, asked.window, LINES_MAX)).decode()
    return web.Response(text=plain_json(report), content_type="application/json", charset="utf-8")

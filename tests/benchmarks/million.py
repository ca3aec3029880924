"""`python -m tests.benchmarks.million`: what a million answers cost, from the measured figures.

CPU is that of docs/benchmarks/figures.jsonl at 1,000 calls in flight; prices of models are those
of the list that workers use. What a core or a gigabyte costs is an assumption, and an option.
"""

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer
from genai_prices import Usage, calc_price

FIGURES = Path(__file__).parents[2] / "docs/benchmarks/figures.jsonl"
CASE, WHO = "1,000 in flight, log-normal", "product"
ANSWERS = 1_000_000
S_PER_HOUR = 3_600
REPLICAS = 3
KEPT_DAYS, ATTEMPTS_KEPT_DAYS = 7, 30  # as topics are made
DAYS_PER_MONTH = 30
MODELS = ("gpt-4.1-nano", "gpt-4.1-mini", "gpt-4.1", "claude-sonnet-4-5")


def measured() -> Mapping[str, float]:
    """The newest figures of the case, by name."""
    lines = (json.loads(line) for line in FIGURES.read_text(encoding="utf-8").splitlines())
    found = [one for one in lines if (one["case"], one["who"]) == (CASE, WHO)]
    return {one["name"]: one["value"] for one in sorted(found, key=lambda one: one["run"]["at"])}


def dollars_of_tokens(model: str, input_tokens: int, output_tokens: int) -> float:
    """Of all answers."""
    used = Usage(input_tokens=input_tokens, output_tokens=output_tokens)
    return float(calc_price(used, model_ref=model).total_price) * ANSWERS


def main(
    core_hour: Annotated[float, typer.Option(help="dollars of a core for an hour")] = 0.05,
    gb_month: Annotated[float, typer.Option(help="dollars of a GB of disk for a month")] = 0.10,
    input_tokens: Annotated[int, typer.Option()] = 1_000,
    output_tokens: Annotated[int, typer.Option()] = 200,
    bytes_written: Annotated[int, typer.Option(help="of all records of a request")] = 8_000,
    attempt_bytes: Annotated[int, typer.Option(help="of these, kept for longer")] = 1_000,
) -> None:
    figures = measured()
    worker_h = figures["CPU per request"] / 1_000 * ANSWERS / S_PER_HOUR
    broker_h = figures["cores, broker"] / figures["requests per second"] * ANSWERS / S_PER_HOUR
    disk_gb, attempts_gb = (
        size * REPLICAS * ANSWERS / 1e9 for size in (bytes_written - attempt_bytes, attempt_bytes)
    )
    gb_days = disk_gb * KEPT_DAYS + attempts_gb * ATTEMPTS_KEPT_DAYS
    rows = [
        ("CPU of workers", f"{worker_h:.2f} core hours", worker_h * core_hour),
        (
            "CPU of brokers",
            f"{broker_h:.2f} core hours, a replica",
            broker_h * REPLICAS * core_hour,
        ),
        (
            "disk of brokers",
            f"{disk_gb:.0f} GB for {KEPT_DAYS} days, {attempts_gb:.0f} for {ATTEMPTS_KEPT_DAYS}",
            gb_days * gb_month / DAYS_PER_MONTH,
        ),
        *(
            (
                f"tokens, {model}",
                f"{input_tokens:,} in, {output_tokens:,} out an answer",
                dollars_of_tokens(model, input_tokens, output_tokens),
            )
            for model in MODELS
        ),
    ]
    sys.stdout.write("| what | how much | dollars |\n|---|---|---:|\n")
    for what, how_much, dollars in rows:
        sys.stdout.write(f"| {what} | {how_much} | {dollars:,.2f} |\n")


if __name__ == "__main__":
    typer.run(main)

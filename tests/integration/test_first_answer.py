"""From nothing to a first answer on a secured cluster, by the lines of docs/production.md alone."""

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import textwrap
from contextlib import suppress
from pathlib import Path

import pytest

from tests.compose.granting import after, binding, options_of, rows_of
from tests.integration.bus import ROOT
from tests.integration.rights import PASSWORD
from tests.integration.secured import Secured

pytestmark = [pytest.mark.kafka, pytest.mark.long]

LIMIT_S = 120.0
PAGE = (ROOT / "docs/production.md").read_text(encoding="utf-8")
SECTION = PAGE.partition("## From nothing to a first answer")[2].partition("\n## ")[0]
BLOCKS = re.findall(r"^   ```(\w+)\n(.*?)^   ```", SECTION, re.MULTILINE | re.DOTALL)
INSTALL, VARIABLES, MAKE_USERS, GRANT, RUN = range(5)  # the blocks for bash
# A question for a text: what is scripted is shown as it is.
ANSWER = {"kind": "answered", "content": "Two."}


def block(kind: str, number: int = 0) -> str:
    return textwrap.dedent([text for name, text in BLOCKS if name == kind][number])


def settings(secured: Secured, folder: Path) -> str:
    """Those of the page; only addresses, files and the provider are of this machine."""
    script = folder / "script.json"
    script.write_text(json.dumps({"rules": [{"reply": ANSWER}]}))
    text = block("toml").replace("kafka-1:9093", secured.at("SASL_SSL"))
    text = text.replace("ca.pem", str(secured.authority.file))
    kafka = text.partition("[profiles")[0]
    profile = f'[profiles.default]\nprovider = "scripted"\nscript = "{script}"\n'
    return f'{kafka}[worker]\nhealth = "127.0.0.1:0"\n{profile}'


def shell(text: str, folder: Path, **variables: str) -> str:
    """What bash prints for these lines; what they leave running is ended."""
    (folder / "answerbus").write_text(f'#!/bin/sh\nexec {sys.executable} -m services.cli "$@"\n')
    (folder / "answerbus").chmod(0o755)
    path = f"{folder}:{os.environ['PATH']}"  # noqa: TID251 - for a child
    reported, errors = folder / "said", folder / "errors"
    with reported.open("wb") as out, errors.open("wb") as error:
        process = subprocess.Popen(
            ["bash", "-euo", "pipefail", "-c", text],
            cwd=folder,
            env={"PATH": path, "PYTHONPATH": str(ROOT), "HOME": str(folder), **variables},
            stdout=out,
            stderr=error,
            start_new_session=True,
        )
    try:
        code = process.wait(LIMIT_S)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    assert code == 0, reported.read_text() + errors.read_text()
    return reported.read_text()


def variables(secured: Secured) -> str:
    """Those of the page, with our broker and password."""
    text = block("bash", VARIABLES).replace("kafka-1:9093", secured.at("SASL_SSL"))
    return text.replace("KAFKA_PASSWORD=…", f"KAFKA_PASSWORD={PASSWORD}").replace("…", "none")


def noted(lines: str, program: str, folder: Path) -> list[list[str]]:
    """What the lines tell one of Kafka's scripts, in words; they come in as the page says."""
    notes, script = folder / f"{program}.notes", folder / program
    script.write_text(
        f'#!/bin/sh\nfor word; do printf "%s\\0" "$word"; done >>{notes}\necho >>{notes}\n'
    )
    script.chmod(0o755)
    shell(lines, folder)
    commands = [line.removesuffix("\0").split("\0") for line in notes.read_text().splitlines()]
    for words in commands:
        options = options_of(folder / after(words, "--command-config"))
        assert options["security.protocol"] == "SASL_SSL"
    return commands


def make_users(secured: Secured, folder: Path) -> None:
    """The lines of the page."""
    lines = variables(secured) + block("bash", MAKE_USERS)
    for words in noted(lines, "kafka-configs.sh", folder):
        found = re.fullmatch(r"SCRAM-SHA-512=\[password=(.+)\]", after(words, "--add-config"))
        assert found
        assert after(words, "--bootstrap-server") == secured.at("SASL_SSL")
        secured.set_scram_password(found[1], after(words, "--entity-name"))


def grant(secured: Secured, folder: Path) -> None:
    """The lines of the page; what they tell `kafka-acls.sh` is done at once for all."""
    lines = variables(secured) + block("bash", GRANT)
    commands = noted(lines, "kafka-acls.sh", folder)
    bindings = [
        binding(after(words, "--allow-principal"), row)
        for words in commands
        for row in rows_of(words)
    ]
    secured.administer(lambda admin: admin.create_acls(bindings))


async def test_the_lines_of_the_page_lead_to_an_answer(secured: Secured, tmp_path: Path) -> None:
    (tmp_path / "answerbus.toml").write_text(settings(secured, tmp_path))
    (tmp_path / "admin.properties").write_text(block("properties"))
    await asyncio.to_thread(make_users, secured, tmp_path)
    await asyncio.to_thread(grant, secured, tmp_path)
    reported = await asyncio.to_thread(shell, variables(secured) + block("bash", RUN), tmp_path)

    assert reported.splitlines()[-1] == "Two."
    assert "ok      trial" in reported
    assert not re.search(r"^wrong", reported, re.MULTILINE)

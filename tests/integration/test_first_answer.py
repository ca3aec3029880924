"""From nothing to a first answer on a secured cluster, by the lines of docs/production.md alone."""

import asyncio
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import textwrap
from contextlib import suppress
from pathlib import Path

import pytest

from tests.compose.granting import after, binding, rows_of
from tests.integration.bus import ROOT
from tests.integration.rights import PASSWORD
from tests.integration.secured import Secured

pytestmark = [pytest.mark.kafka, pytest.mark.long]

LIMIT_S = 120.0
USERS = ("acme-admin", "acme-worker", "acme-app")
PAGE = (ROOT / "docs/production.md").read_text(encoding="utf-8")
SECTION = PAGE.partition("## From nothing to a first answer")[2].partition("\n## ")[0]
BLOCKS = re.findall(r"^   ```(\w+)\n(.*?)^   ```", SECTION, re.MULTILINE | re.DOTALL)
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
    said, errors = folder / "said", folder / "errors"
    with said.open("wb") as out, errors.open("wb") as error:
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
    assert code == 0, said.read_text() + errors.read_text()
    return said.read_text()


def grant(secured: Secured, folder: Path) -> None:
    """The lines of the page; what they tell `kafka-acls.sh` is done at once for all."""
    noted = folder / "rows"
    program = folder / "kafka-acls.sh"
    program.write_text(
        f'#!/bin/sh\nfor word; do printf "%s " "$word"; done >>{noted}\necho >>{noted}\n'
    )
    program.chmod(0o755)
    shell(block("bash", 0), folder, BOOTSTRAP=secured.plain, ADMIN_CONFIG="admin.properties")
    commands = [shlex.split(line) for line in noted.read_text().splitlines()]
    bindings = [
        binding(after(words, "--allow-principal"), row)
        for words in commands
        for row in rows_of(words)
    ]
    secured.administer(lambda admin: admin.create_acls(bindings))


async def test_the_lines_of_the_page_lead_to_an_answer(secured: Secured, tmp_path: Path) -> None:
    for user in USERS:
        secured.set_scram_password(PASSWORD, user)
    (tmp_path / "answerbus.toml").write_text(settings(secured, tmp_path))
    await asyncio.to_thread(grant, secured, tmp_path)

    lines = block("bash", 1).replace("KAFKA_PASSWORD=…", f"KAFKA_PASSWORD={PASSWORD}")
    told = await asyncio.to_thread(shell, lines, tmp_path)

    assert told.splitlines()[-1] == "Two."
    assert "ok      trial" in told
    assert not re.search(r"^wrong", told, re.MULTILINE)

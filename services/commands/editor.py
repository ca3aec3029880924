"""Has an operator change a text in an editor of their own."""

import shlex
import subprocess
import tempfile
from pathlib import Path
from typing import Annotated

import typer

Editor = Annotated[
    str,
    typer.Option(
        "--editor", metavar="COMMAND", envvar=["VISUAL", "EDITOR"], help="The editor for --edit."
    ),
]
EDITOR_DEFAULT = "vi"


def edited(text: str, suffix: str, command: str) -> str:
    """The text as they leave it, from a file that is theirs alone. Raises typer.BadParameter."""
    with tempfile.TemporaryDirectory(prefix="answerbus-") as folder:
        file = Path(folder) / f"edit{suffix}"
        file.write_text(text, encoding="utf-8")
        try:
            ended = subprocess.run([*shlex.split(command), str(file)], check=False)  # noqa: S603 - theirs
        except (OSError, ValueError) as error:
            raise typer.BadParameter(f"The editor {command!r} cannot be started: {error}") from None
        if ended.returncode:
            raise typer.BadParameter(f"The editor {command!r} ended with {ended.returncode}.")
        try:
            return file.read_text(encoding="utf-8")
        except (OSError, ValueError) as error:
            raise typer.BadParameter(f"What {command!r} left cannot be read: {error}") from None

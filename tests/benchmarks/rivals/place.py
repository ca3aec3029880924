"""An environment of the rivals' own: their packages are none of the project's."""

import sys
import venv
from pathlib import Path
from subprocess import PIPE, STDOUT, run

from infra.setup_error import SetupError

FOLDER = Path(".run/benchmarks/rivals")
REQUIREMENTS = Path(__file__).with_name("requirements.txt")
_MADE_OF = "made-of.txt"


def rivals_python() -> Path:
    """Their interpreter; the first time this downloads about 100 MB. Raises SetupError."""
    python, made_of = FOLDER / "bin" / "python", FOLDER / _MADE_OF
    wanted = f"{sys.version}\n{REQUIREMENTS.read_text()}"
    if made_of.exists() and made_of.read_text() == wanted:
        return python.absolute()
    venv.create(FOLDER, clear=True, with_pip=True)
    command = [str(python), "-m", "pip", "install", "--quiet", "--requirement", str(REQUIREMENTS)]
    done = run(command, stdout=PIPE, stderr=STDOUT, text=True, check=False)
    if done.returncode:
        raise SetupError(f"The rivals' packages cannot be installed: {done.stdout[-500:]}")
    made_of.write_text(wanted)
    return python.absolute()

"""docker-compose.yml as it is read: its services by name, with variables filled in."""

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
FILE = ROOT / "docker-compose.yml"
Service = dict[str, Any]
_VARIABLE = re.compile(r"\$\{(\w+):-([^}]*)\}")


@cache
def document() -> Mapping[str, Any]:
    """All of it; a variable has its default."""
    text = FILE.read_text(encoding="utf-8")
    found: Mapping[str, Any] = yaml.safe_load(_VARIABLE.sub(r"\2", text))
    return found


def services() -> Mapping[str, Service]:
    found: Mapping[str, Service] = document()["services"]
    return found


def of_profile(profile: str) -> Mapping[str, Service]:
    return {name: one for name, one in services().items() if profile in one["profiles"]}


def environment(service: Service) -> dict[str, str]:
    return {name: str(value) for name, value in service.get("environment", {}).items()}


def broker_properties(service: Service) -> dict[str, str]:
    """As the image of Apache Kafka reads variables: `_` is a dot, `__` a line, `___` a dash."""
    found = {}
    for name, value in environment(service).items():
        if name.startswith("KAFKA_"):
            key = name.removeprefix("KAFKA_").lower().replace("___", "-").replace("__", "\0")
            found[key.replace("_", ".").replace("\0", "_")] = value
    return found

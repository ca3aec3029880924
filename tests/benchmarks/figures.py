"""A figure as it is kept: one JSON line each, with all that is needed to make it again."""

import json
import platform
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from typing import Any, Literal

_PACKAGES = (
    *("aiokafka", "aiohttp", "openai", "pydantic", "faststream"),
    *("jsonschema", "jsonschema-rs", "pydantic-ai-slim"),
)


@dataclass(frozen=True, slots=True)
class Bar:
    """What a figure has to reach."""

    relation: Literal["<=", ">=", "="]
    value: float

    def holds(self, value: float) -> bool:
        match self.relation:
            case "<=":
                return value <= self.value
            case ">=":
                return value >= self.value
            case "=":
                return value == self.value

    def __str__(self) -> str:
        return f"{self.relation} {self.value:g}"


@dataclass(frozen=True, slots=True)
class Figure:
    """`who` was measured (product, baseline ...) under `case`; `points` are a curve's."""

    measurement: str
    case: str
    who: str
    name: str
    value: float | None
    unit: str
    bar: Bar | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)
    points: tuple[tuple[float, float], ...] = ()

    @property
    def holds(self) -> bool | None:
        """Whether it reaches its bar; None without one."""
        if self.bar is None or self.value is None:
            return None
        return self.bar.holds(self.value)


def versions() -> dict[str, str]:
    """Of what was measured, and on what."""
    found = {name: version(name) for name in _PACKAGES}
    return {"python": platform.python_version(), **found}


def as_line(figure: Figure, run: Mapping[str, Any]) -> str:
    """One JSON line; `run` says what all figures of a run have in common."""
    return json.dumps({**asdict(figure), "run": dict(run)}, ensure_ascii=False)


def read(lines: Iterable[str]) -> list[tuple[Figure, dict[str, Any]]]:
    """Figures and their runs; of two with the same name, case and machine the later one."""
    found: dict[tuple[Any, ...], tuple[Figure, dict[str, Any]]] = {}
    for line in lines:
        entry = json.loads(line)
        run = entry.pop("run")
        bar = entry.pop("bar")
        points = tuple((x, y) for x, y in entry.pop("points"))
        figure = Figure(**entry, bar=Bar(**bar) if bar else None, points=points)
        made_on = run.get("machine"), run.get("versions", {}).get("python")
        found[figure.measurement, figure.case, figure.who, figure.name, made_on] = (figure, run)
    return list(found.values())

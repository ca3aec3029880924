"""What goes wrong in a run, and when: drawn from the seed."""

import random
from dataclasses import dataclass
from enum import Enum

FIRST_S = 2.0
GAP_S = (2.0, 7.0)  # between the beginnings of two faults
REST_S = 2.0  # without new faults, at the end of the window


class Kind(Enum):
    """The value is what people are told."""

    KILL = "kill -9"
    TERM = "SIGTERM"
    STOP = "SIGSTOP"
    GUEST = "a guest joins"
    BROKER = "broker killed"
    CLOCK = "a clock is set"
    RIGHTS = "rights are taken away"
    TOOL_KILL = "kill -9 of a tool server"
    TOOL_TERM = "SIGTERM to a tool server"
    TOOL_STOP = "SIGSTOP to a tool server"


HOSTILE = (Kind.CLOCK, Kind.RIGHTS)
OF_TOOLS = (Kind.TOOL_KILL, Kind.TOOL_TERM, Kind.TOOL_STOP)
ORDINARY = tuple(kind for kind in Kind if kind not in (*HOSTILE, *OF_TOOLS))


@dataclass(frozen=True, slots=True)
class Fault:
    """From `at_s` on and for `lasts_s` seconds; `slot` is the worker, or tool server, that it hits.

    `number` counts the faults of its kind, so that those that can be done in several ways vary.
    """

    at_s: float
    kind: Kind
    slot: int
    lasts_s: float
    number: int = 0


def faults(
    seed: int,
    workers: int,
    session_s: float,
    window_s: float,
    brokers: int = 1,
    *,
    hostile: bool = False,
    tools: int = 0,
) -> list[Fault]:
    """Faults all over the window, in order of time: each kind once, then as they come.

    Of several brokers one is lost more often: the others go on meanwhile.
    """
    chance = random.Random(f"faults {seed}")
    weights = {Kind.KILL: 4, Kind.TERM: 3, Kind.STOP: 3, Kind.GUEST: 2, Kind.BROKER: 1}
    if brokers > 1:
        weights[Kind.BROKER] = 5
    if hostile:
        weights |= {Kind.CLOCK: 6, Kind.RIGHTS: 6}
    if tools:
        weights |= {Kind.TOOL_KILL: 4, Kind.TOOL_TERM: 2, Kind.TOOL_STOP: 2}
    first = list(weights)
    chance.shuffle(first)
    begun = {kind: chance.randrange(100) for kind in HOSTILE if hostile}
    found: list[Fault] = []
    at_s = FIRST_S
    while at_s < window_s - REST_S:
        kind = first.pop() if first else chance.choices(list(weights), list(weights.values()))[0]
        lasts_s = chance.uniform(*_lasting(kind, session_s))
        number = begun[kind] = begun.get(kind, -1) + 1
        slots = tools if kind in OF_TOOLS else workers
        found.append(Fault(at_s, kind, chance.randrange(slots), lasts_s, number))
        at_s += chance.uniform(*GAP_S)
    return found


def _lasting(kind: Kind, session_s: float) -> tuple[float, float]:
    """Seconds, at least and at most; what is frozen stays so for longer than a session lasts."""
    match kind:
        case Kind.KILL | Kind.TOOL_KILL:
            return 0.0, 3.0
        case Kind.TERM | Kind.TOOL_TERM:
            return 0.0, 4.0
        case Kind.STOP | Kind.TOOL_STOP:
            return session_s + 1.5, session_s + 4.0
        case Kind.GUEST:
            return 4.0, 10.0
        case Kind.BROKER:
            return 0.5, 4.0
        case Kind.CLOCK:
            return 3.0, 10.0
        case Kind.RIGHTS:
            return 5.0, 10.0

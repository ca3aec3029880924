"""What agents of the demo stack are asked with the real model, and when that has worked."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from answerbus.tools import Toolset

TRIALS = 10  # of each case, each about something else
CASES: Mapping["Case", str] = {
    "echo": "the tool that `make up` serves is called, and its result is the answer",
    "own tool": "the tool of docs/agents.md is called, and the answer says the weather",
    "delegate": "one child is asked by a schema that the model writes, and succeeds",
    "chat": "the third turn of a conversation knows the name from the first one",
}
Case = Literal["echo", "own tool", "delegate", "chat"]

AGENTS = """\
[agents.forecaster]
instructions = "You answer questions about the weather."
tools = ["weather.get_weather"]

[agents.lead]
instructions = "You ask a specialist, and then answer with what the specialist found."
delegate = {depth_max = 1, children_max = 4}
"""
# None that an answer may say in another form, as "raining" for "rainy".
_SKIES = ("clear", "overcast", "hazy", "windy", "icy")
_CITIES = (
    *("Oslo", "Bergen", "Paris", "Berlin", "Madrid"),
    *("Rome", "Vienna", "Prague", "Dublin", "Lisbon"),
)
_NAMES = ("Ada", "Ben", "Clara", "David", "Emma", "Felix", "Grace", "Hugo", "Ines", "Jonas")
_PHRASES = (
    *("Hello", "Good morning", "All is well", "The tea is ready", "See you soon"),
    *("Welcome home", "It works", "Nice to meet you", "Open the window", "Many thanks"),
)
_PARTS = (
    *("a name for a cat", "the capital of France", "a colour for a door", "a title for a novel"),
    *("a fruit for a cake", "a name for a boat", "the largest planet", "a tree for a garden"),
    *("a drink for a cold day", "an animal that can fly"),
)

weather = Toolset("weather")


@weather.tool
def get_weather(city: str) -> dict[str, str]:
    """The weather in a city, now."""
    return {"city": city, "sky": sky_of(city)}


def sky_of(city: str) -> str:
    """Another one for each neighbour in the list, so that no answer is right by chance."""
    return _SKIES[_CITIES.index(city) % len(_SKIES)] if city in _CITIES else "foggy"


@dataclass(frozen=True, slots=True)
class Trial:
    """What is said to an agent, turn by turn; `wanted` must be in its last answer.

    A call of `tool` must have ended well, where there is one.
    """

    case: Case
    number: int
    agent: str
    turns: tuple[str, ...]
    wanted: str = ""
    tool: str | None = None

    @property
    def id(self) -> str:
        """Of its workflow, and of its row."""
        return f"agents-{self.case.replace(' ', '-')}-{self.number:02}"


@dataclass(frozen=True, slots=True)
class EndedCall:
    """How a tool call ended; `success` is what a child says of itself."""

    tool: str
    kind: str
    is_repeat: bool = False
    success: bool = True


def has_worked(trial: Trial, answer: str | None, calls: Sequence[EndedCall]) -> bool:
    """Whether it came to what was wanted."""
    if answer is None or trial.wanted.lower() not in answer.lower():
        return False
    done = (call.kind == "ok" and call.success for call in calls if call.tool == trial.tool)
    return trial.tool is None or any(done)


def trials() -> Iterator[Trial]:
    """A number of each case after the other, so that a survey cut short has tried them all."""
    for number in range(TRIALS):
        phrase, city, name = _PHRASES[number], _CITIES[number], _NAMES[number]
        echo = f"Use the echo tool to echo the phrase {phrase}."
        yield Trial("echo", number, "helper", (echo,), phrase, "echo.echo")
        question = f"What is the weather in {city}?"
        tool = "weather.get_weather"
        yield Trial("own tool", number, "forecaster", (question,), sky_of(city), tool)
        part = f"Ask a specialist for {_PARTS[number]}."
        yield Trial("delegate", number, "lead", (part,), tool="delegate")
        turns = f"My name is {name}.", f"What is 2 plus {number}?", "What is my name?"
        yield Trial("chat", number, "helper", turns, name)

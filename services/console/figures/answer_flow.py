"""Where answers go: from each contract to its endings, dead letters by problem; pure."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from services.console.figures.dead_letter_links import Span, letters_of_problem
from services.console.figures.outcome_charts import ENDINGS, ending_counts
from services.console.state.minute import ContractCounts, Minute

CONTRACTS_SHOWN, PROBLEMS_SHOWN = 6, 5
_OTHERS, _OTHER_PROBLEMS = "other contracts", "dead: other problems"
NODE_GAP_PX = 8
NODE_MIN_PX = 28  # a name and a count fit beside it
LEFT, RIGHT = 0, 1000  # across, in units of a drawing that is stretched
_MIDDLE = (LEFT + RIGHT) // 2
_HEIGHT_PX = 300
_CHARS_SHOWN = 22  # of a name; see charts.html
_CHAR_EM, _PADDING_EM = 0.56, 0.4  # of the text beside the ribbons, which is not stretched


@dataclass(frozen=True, slots=True)
class FlowNode:
    """A contract on the left, or an ending on the right; `y` and `height` in pixels."""

    series: str
    name: str
    count: int
    y: float
    height: float
    href: str | None = None


@dataclass(frozen=True, slots=True)
class Ribbon:
    """How many of a contract ended so; `path` is in SVG's words."""

    series: str
    path: str
    label: str


@dataclass(frozen=True, slots=True)
class Flow:
    height: float
    sources: tuple[FlowNode, ...]
    endings: tuple[FlowNode, ...]
    ribbons: tuple[Ribbon, ...]

    @property
    def sources_em(self) -> float:
        """How wide the longest text of a source is, in widths of its font."""
        return _width_em(self.sources)

    @property
    def endings_em(self) -> float:
        """The same of an ending."""
        return _width_em(self.endings)


@dataclass(frozen=True, slots=True)
class FlowCount:
    """How many of `source` ended as `ending`, which is of a series (a colour)."""

    source: str
    ending: str
    series: str
    count: int


def flow(counts: Sequence[FlowCount], ending_links: Mapping[str, str] | None = None) -> Flow:
    """The most frequent above; heights say how many, but none is too low to be seen."""
    counts = [count for count in counts if count.count]
    sources, endings, series = Counter[str](), Counter[str](), dict[str, str]()
    for count in counts:
        sources[count.source] += count.count
        endings[count.ending] += count.count
        series[count.ending] = count.series
    order = list(dict.fromkeys(count.ending for count in counts))
    left = _nodes(sources.most_common(), {}, {})
    right = _nodes([(name, endings[name]) for name in order], series, ending_links or {})
    height = max((node.y + node.height for node in (*left, *right)), default=0.0)
    return Flow(height, left, right, tuple(_ribbons(counts, left, right)))


def _nodes(
    found: Sequence[tuple[str, int]], series: Mapping[str, str], links: Mapping[str, str]
) -> tuple[FlowNode, ...]:
    whole, at, nodes = sum(count for _, count in found), 0.0, []
    for name, count in found:
        height = max(NODE_MIN_PX, _HEIGHT_PX * count / whole)
        nodes.append(
            FlowNode(
                series.get(name, "source"), name, count, round(at, 2), round(height, 2),
                links.get(name),
            )
        )  # fmt: skip
        at += height + NODE_GAP_PX
    return tuple(nodes)


def _width_em(nodes: Sequence[FlowNode]) -> float:
    chars = max((max(len(node.name), len(f"{node.count:,}")) for node in nodes), default=0)
    return round(_PADDING_EM + _CHAR_EM * min(chars, _CHARS_SHOWN), 2)


def _ribbons(
    counts: Sequence[FlowCount], left: Sequence[FlowNode], right: Sequence[FlowNode]
) -> list[Ribbon]:
    sources, endings = ({node.name: node for node in nodes} for nodes in (left, right))
    from_y = {node.name: node.y for node in left}
    to_y = {node.name: node.y for node in right}
    found = []
    rank = {node.name: n for n, node in enumerate((*left, *right))}
    for flow_count in sorted(
        counts, key=lambda flow_count: (rank[flow_count.source], rank[flow_count.ending])
    ):
        source, ending = sources[flow_count.source], endings[flow_count.ending]
        out, into = (flow_count.count / node.count * node.height for node in (source, ending))
        a, b = from_y[flow_count.source], to_y[flow_count.ending]
        from_y[flow_count.source] += out
        to_y[flow_count.ending] += into
        path = _band(a, a + out, b, b + into)
        found.append(
            Ribbon(
                flow_count.series,
                path,
                f"{flow_count.source}: {flow_count.ending} {flow_count.count:,}",
            )
        )
    return found


def _band(top: float, foot: float, to_top: float, to_foot: float) -> str:
    there = f"M{LEFT} {top:.2f}C{_MIDDLE} {top:.2f} {_MIDDLE} {to_top:.2f} {RIGHT} {to_top:.2f}"
    back = f"V{to_foot:.2f}C{_MIDDLE} {to_foot:.2f} {_MIDDLE} {foot:.2f} {LEFT} {foot:.2f}Z"
    return there + back


def answer_flow(total: Minute, span: Span) -> Flow:
    """The most frequent contracts and problems; the others are added up."""
    ranked = sorted(total.contracts.items(), key=lambda pair: -pair[1].ended)
    contracts = dict(ranked[:CONTRACTS_SHOWN])
    if rest := ranked[CONTRACTS_SHOWN:]:
        contracts[_OTHERS] = ContractCounts()
        for _, counts in rest:
            contracts[_OTHERS].add(counts)
    died = Counter[str]()
    for counts in contracts.values():
        died.update(counts.died)
    problems = [problem for problem, _ in died.most_common(PROBLEMS_SHOWN)]
    found = [
        FlowCount(name, ENDINGS[kind], kind, ending_counts(counts)[kind])
        for kind in ("first", "mended", "unvalidated", "refused")
        for name, counts in contracts.items()
    ]
    for problem in problems:
        found += [
            FlowCount(name, _dead(problem), "dead", counts.died[problem])
            for name, counts in contracts.items()
        ]
    found += [
        FlowCount(name, _OTHER_PROBLEMS, "dead", _others(counts, problems))
        for name, counts in contracts.items()
    ]
    links = {_dead(problem): letters_of_problem(span, problem) for problem in problems}
    return flow(found, links)


def _dead(problem: str) -> str:
    return f"dead: {problem.replace('_', ' ')}"


def _others(counts: ContractCounts, problems: list[str]) -> int:
    return sum(count for problem, count in counts.died.items() if problem not in problems)

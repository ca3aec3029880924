"""Where answers go: from each contract to its endings, dead letters by problem; pure."""

from collections import Counter

from services.console.figures.contract_rows import Span
from services.console.figures.letter_links import letters_of_problem
from services.console.figures.outcome_charts import ENDINGS, ending_counts
from services.console.state.minute import ContractCounts, Minute
from services.console.views.flow import Flow, FlowCount, flow

CONTRACTS_SHOWN, PROBLEMS_SHOWN = 6, 5
_OTHERS, _OTHER_PROBLEMS = "other contracts", "dead: other problems"


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
    return flow(found, ending_links=links)


def _dead(problem: str) -> str:
    return f"dead: {problem.replace('_', ' ')}"


def _others(counts: ContractCounts, problems: list[str]) -> int:
    return sum(count for problem, count in counts.died.items() if problem not in problems)

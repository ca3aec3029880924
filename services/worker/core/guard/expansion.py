"""How large a schema is once its references are followed, found without following them twice."""

from collections import Counter
from collections.abc import Callable, Sequence

from services.worker.core.json_schema.document import Document
from services.worker.core.json_schema.keywords import STORES, AnySchema, reference, subschemas


def expanded_nodes(document: Document, saturation: int) -> int:
    """The number of schemas when each `$ref` is replaced by its target; at most `saturation` + 1.

    A target inside itself (recursion) counts once. Each target is measured once, so the work is
    linear in the text although the number may be exponential in it.
    """
    (nodes,), _ = expanded(document, lambda _: 1)
    return min(nodes, saturation + 1)


def expanded(
    document: Document, *weights: Callable[[AnySchema], int]
) -> tuple[Sequence[int], frozenset[int]]:
    """The sums of these weights of the schemas, and the ids of those targets that they leave out.

    They are inside themselves, one in each circle of references, and counted once.
    """
    circular = set[int]()
    sums: dict[int, Sequence[int]] = {}
    entered: dict[int, tuple[list[AnySchema], Counter[int]]] = {}
    stack: list[AnySchema] = [document.root]
    while stack:
        schema = stack[-1]
        key = id(schema)
        if key not in entered:
            text, targets = _text_of(document, schema)
            entered[key] = text, Counter(id(target) for target in targets)
            stack.extend(target for target in targets if id(target) not in entered)
            continue
        stack.pop()
        if key not in sums:
            text, times = entered[key]
            # A target without a sum yet is one that we are inside of.
            circular.update(times.keys() - sums.keys())
            known = [(count, sums[target]) for target, count in times.items() if target in sums]
            sums[key] = [
                sum(map(weight, text)) + sum(count * of[number] for count, of in known)
                for number, weight in enumerate(weights)
            ]
    return sums[id(document.root)], frozenset(circular)


def _text_of(document: Document, top: AnySchema) -> tuple[list[AnySchema], list[AnySchema]]:
    """The schemas in the text of `top` that apply to a value, and those that they refer to."""
    text, targets = list[AnySchema](), list[AnySchema]()
    waiting: list[AnySchema] = [top]
    while waiting:
        schema = waiting.pop()
        text.append(schema)
        if isinstance(schema, bool):
            continue
        ref = reference(schema)
        target = None if ref is None else document.target(ref)
        if target is not None:
            targets.append(target)
        if not document.ignores_siblings(schema):
            waiting.extend(inner for steps, inner in subschemas(schema) if steps[0] not in STORES)
    return text, targets

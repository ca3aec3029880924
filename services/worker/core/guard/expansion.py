"""How large a schema is once its references are followed, found without following them twice."""

from collections import Counter
from collections.abc import Callable

from services.worker.core.json_schema.document import Document
from services.worker.core.json_schema.keywords import STORES, AnySchema, reference, subschemas


def expanded_nodes(document: Document, saturation: int) -> int:
    """The number of schemas when each `$ref` is replaced by its target; at most `saturation` + 1.

    A target inside itself (recursion) counts once. Each target is measured once, so the work is
    linear in the text although the number may be exponential in it.
    """
    return min(expanded(document, lambda _: 1)[0], saturation + 1)


def expanded(document: Document, weight: Callable[[AnySchema], int]) -> tuple[int, frozenset[int]]:
    """The sum of the weights of these schemas, and the ids of those targets that it leaves out.

    They are inside themselves, one in each circle of references, and counted once.
    """
    circular = set[int]()
    sizes: dict[int, int] = {}
    entered: dict[int, tuple[int, Counter[int]]] = {}
    stack: list[AnySchema] = [document.root]
    while stack:
        schema = stack[-1]
        key = id(schema)
        if key not in entered:
            own, targets = _text_size(document, schema, weight)
            entered[key] = own, Counter(id(target) for target in targets)
            stack.extend(target for target in targets if id(target) not in entered)
            continue
        stack.pop()
        if key not in sizes:
            own, times = entered[key]
            # A target without a size yet is one that we are inside of.
            circular.update(times.keys() - sizes.keys())
            sizes[key] = own + sum(count * sizes.get(target, 0) for target, count in times.items())
    return sizes[id(document.root)], frozenset(circular)


def _text_size(
    document: Document, top: AnySchema, weight: Callable[[AnySchema], int]
) -> tuple[int, list[AnySchema]]:
    """What is in the text of `top` and applies to a value, weighed, and what it refers to."""
    count, targets = 0, []
    waiting: list[AnySchema] = [top]
    while waiting:
        schema = waiting.pop()
        count += weight(schema)
        if isinstance(schema, bool):
            continue
        ref = reference(schema)
        target = None if ref is None else document.target(ref)
        if target is not None:
            targets.append(target)
        if not document.ignores_siblings(schema):
            waiting.extend(inner for steps, inner in subschemas(schema) if steps[0] not in STORES)
    return count, targets

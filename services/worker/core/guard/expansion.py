"""How large a schema is once its references are followed, found without following them twice."""

from collections import Counter

from services.worker.core.json_schema.document import Document
from services.worker.core.json_schema.keywords import STORES, AnySchema, reference, subschemas


def expanded_nodes(document: Document, saturation: int) -> int:
    """The number of schemas when each `$ref` is replaced by its target; at most `saturation` + 1.

    A target inside itself (recursion) counts once. Each target is measured once, so the work is
    linear in the text although the number may be exponential in it.
    """
    sizes: dict[int, int] = {}
    entered: dict[int, tuple[int, Counter[int]]] = {}
    stack: list[AnySchema] = [document.root]
    while stack:
        schema = stack[-1]
        key = id(schema)
        if key not in entered:
            own, targets = _text_size(document, schema)
            entered[key] = own, Counter(id(target) for target in targets)
            stack.extend(target for target in targets if id(target) not in entered)
            continue
        stack.pop()
        if key not in sizes:
            own, times = entered[key]
            # A target without a size yet is one that we are inside of.
            total = own + sum(count * sizes.get(target, 0) for target, count in times.items())
            sizes[key] = min(total, saturation + 1)
    return sizes[id(document.root)]


def _text_size(document: Document, top: AnySchema) -> tuple[int, list[AnySchema]]:
    """The schemas that stand in the text of `top` and apply to a value, and what they refer to."""
    count, targets = 0, []
    waiting: list[AnySchema] = [top]
    while waiting:
        schema = waiting.pop()
        count += 1
        if isinstance(schema, bool):
            continue
        ref = reference(schema)
        target = None if ref is None else document.target(ref)
        if target is not None:
            targets.append(target)
        if not document.ignores_siblings(schema):
            waiting.extend(inner for steps, inner in subschemas(schema) if steps[0] not in STORES)
    return count, targets

"""Facts that providers could read from their caches, and where they stand too late; pure."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

from answerbus.request import Request
from services.commands.doctor.findings.facts import Finding
from services.text.digest import text_digest

REQUESTS_MIN = 20  # of one form, from which on a share says something
REPEATS_SHARE = 0.9
FACT_CHARS_MIN = 4_096  # about 1,024 tokens: no provider keeps a shorter beginning
INSTRUCTIONS = "instructions"

Form = tuple[str, tuple[str, ...]]  # the profile, and the names of the facts in their order
Digests = tuple[str, ...]  # of the instructions and of each fact


class PromptCaches:
    """The common beginnings of recent requests, by digests."""

    def __init__(self) -> None:
        self._seen: dict[Form, list[Digests]] = defaultdict(list)
        self._sizes: dict[Form, list[int]] = {}

    def take(self, request: Request) -> None:
        texts = [str(fact.value) for fact in request.context.facts]
        form = request.profile, tuple(fact.name for fact in request.context.facts)
        digests = tuple(map(text_digest, (request.context.instructions, *texts)))
        self._seen[form].append(digests)
        self._sizes[form] = [len(text) for text in texts]

    def findings(self) -> Iterator[Finding]:
        """A warning for each fact that repeats behind something that differs."""
        for form, seen in self._seen.items():
            if len(seen) >= REQUESTS_MIN:
                yield from _late(form, seen, self._sizes[form])


def _late(form: Form, seen: Sequence[Digests], sizes: Sequence[int]) -> Iterator[Finding]:
    profile, names = form
    first, *shares = [_share(part) for part in zip(*seen, strict=True)]
    differs = INSTRUCTIONS if first < REPEATS_SHARE else None
    for name, share, size in zip(names, shares, sizes, strict=True):
        if share < REPEATS_SHARE:
            differs = differs or f"fact `{name}`"
        elif differs and size >= FACT_CHARS_MIN:
            text = (
                f"in {len(seen)} recent requests to profile {profile}, the fact `{name}` of "
                f"{size:,} characters is the same in {share:.0%}, and stands behind {differs}, "
                "which differs: send what repeats first, or no cache of the provider is hit"
            )
            yield Finding("prompt caches", "warning", text)


def _share(values: Sequence[str]) -> float:
    """Of the most frequent value."""
    ((_, count),) = Counter(values).most_common(1)
    return count / len(values)

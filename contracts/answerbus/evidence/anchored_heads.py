"""Heads that were signed before a pack was made: each must be in its chain, as far as that goes."""

import re
from bisect import bisect_left, insort
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from answerbus.evidence.anchor_file import Anchor
from answerbus.evidence.chains import ChainCheck, ChainName, PackChain

_DIGEST_CHARS = 12
_OF_REPLAY = re.compile(rf"~([0-9a-f]{{{_DIGEST_CHARS}}})?\Z")


def is_account_of(account_id: str, workflow_id: str) -> bool:
    """Whether it is the workflow's own account or one of its replays, as workers name them."""
    own = f"{workflow_id}~" if _OF_REPLAY.search(workflow_id) else workflow_id
    found = _OF_REPLAY.search(account_id)
    is_replay = found is not None and found[1] is not None
    return account_id == own or (is_replay and account_id[: -_DIGEST_CHARS - 1] == workflow_id)


class _Anchored(NamedTuple):
    """The first and the last anchor that have a head."""

    first: str
    last: str


class AnchoredHeads:
    """Anchored heads that no record of the pack has matched yet.

    An anchor says a time after its reading, and a pack one before its own: what was anchored before
    the pack is in it, unless it is older than its `reaches_back_to`.
    """

    def __init__(self, manifest: Mapping[str, Any]) -> None:
        self._workflow, self._made_at = manifest.get("workflow_id"), str(manifest.get("at"))
        reaches = manifest.get("reaches_back_to")
        self._reaches: dict[str, Any] = reaches if isinstance(reaches, dict) else {}
        self._times: list[str] = []  # of all anchors
        self._awaited: dict[tuple[str, ChainName], dict[str, _Anchored]] = {}
        self.later = 0

    def add(self, anchor: Anchor) -> None:
        """Add the heads of an anchor; an anchor later than the pack proves nothing about it."""
        if anchor.at > self._made_at:
            self.later += 1
            return
        insort(self._times, anchor.at)
        for chain, name, head in anchor.heads:
            if self._workflow is None or self._is_of(str(self._workflow), chain, name):
                known = self._awaited.setdefault((chain, name), {})
                at = known.get(head, (anchor.at, anchor.at))
                known[head] = _Anchored(min(at[0], anchor.at), max(at[1], anchor.at))

    def _is_of(self, workflow_id: str, chain: str, name: ChainName) -> bool:
        if chain == "attempts":
            return len(name) == 1 and is_account_of(name[0], workflow_id)
        return name[:1] == (workflow_id,)

    def met(self, file: str, name: ChainName, digest: str) -> None:
        """Take a record of the pack off the heads that are awaited."""
        if awaited := self._awaited.get((file, name)):
            awaited.pop(digest, None)

    def is_cut(self, file: str) -> bool:
        """Whether the pack does not reach back to the beginning of the topic."""
        return self._reaches.get(file) is not None

    def missing(self, checks: Mapping[str, ChainCheck]) -> Iterator[tuple[str, str]]:
        """The file and in words what is not there."""
        for (file, name), heads in self._awaited.items():
            check = checks.get(file)
            chain = check.chains.get(name) if check else None
            for head, anchored in heads.items():
                if check and self._must_be_there(file, chain, head, anchored):
                    yield file, f"{head} of {name}, anchored at {anchored.last}, is not there"

    def _must_be_there(
        self, file: str, chain: PackChain | None, head: str, anchored: _Anchored
    ) -> bool:
        reaches = self._reaches.get(file)
        if reaches is None:
            return chain is None or head != chain.begins
        if chain is None:
            return self._written_after(anchored) >= str(reaches)
        return chain.begins is None or (head != chain.begins and anchored.last >= str(reaches))

    def _written_after(self, anchored: _Anchored) -> str:
        """A time before the record of a head; empty where none is known.

        It is missing in the anchor before the first that has it, whose reading began after the time
        of the one before that.
        """
        place = bisect_left(self._times, anchored.first) - 2
        return self._times[place] if place >= 0 else ""

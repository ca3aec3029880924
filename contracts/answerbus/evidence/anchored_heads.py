"""Heads that were signed before a pack was made: each must be in its chain, as far as that goes."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

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


class AnchoredHeads:
    """Anchored heads that no record of the pack has matched yet.

    An anchor says a time after its reading, and a pack one before its own: what was anchored before
    the pack is in it, unless it is older than its `reaches_back_to`.
    """

    def __init__(self, manifest: Mapping[str, Any]) -> None:
        self._workflow, self._made_at = manifest.get("workflow_id"), str(manifest.get("at"))
        reaches = manifest.get("reaches_back_to")
        self._reaches: dict[str, Any] = reaches if isinstance(reaches, dict) else {}
        self._awaited: dict[tuple[str, ChainName], dict[str, str]] = {}
        self.later = 0

    def add(self, anchor: Anchor) -> None:
        """Add the heads of an anchor; an anchor later than the pack proves nothing about it."""
        if anchor.at > self._made_at:
            self.later += 1
            return
        for chain, name, head in anchor.heads:
            if self._workflow is None or self._is_of(str(self._workflow), chain, name):
                self._awaited.setdefault((chain, name), {})[head] = anchor.at

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
            for head, at in heads.items():
                if check and self._must_be_there(file, chain, head, at):
                    yield file, f"{head} of {name}, anchored at {at}, is not there"

    def _must_be_there(self, file: str, chain: PackChain | None, head: str, at: str) -> bool:
        reaches = self._reaches.get(file)
        if chain is None:
            return reaches is None
        if chain.begins is None:
            return True
        return head != chain.begins and (reaches is None or at >= str(reaches))

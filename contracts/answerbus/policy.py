"""Policies: an operator's rules on the arguments of a tool's calls, and the verdict on one call."""

from typing import Annotated, Literal

from pydantic import JsonValue

from answerbus.wire import OMIT_NONE, Digest, Wire

Verdict = Literal["allow", "ask", "deny"]
Rule = Literal["allow", "ask", "deny", "otherwise", "not_judged"]
PolicyMode = Literal["enforce", "log_only"]
Schema = dict[str, JsonValue]


class ToolPolicy(Wire):
    """JSON Schemas over `{"args", "labels", "run": {"steps", "spent", "untrusted_read"}}`.

    `deny` is looked at before `ask`, and `ask` before `allow`; a call that satisfies none of them
    is treated as `otherwise` says. With `log_only` verdicts are recorded and not enforced.
    """

    deny: Annotated[Schema | None, OMIT_NONE] = None
    ask: Annotated[Schema | None, OMIT_NONE] = None
    allow: Annotated[Schema | None, OMIT_NONE] = None
    otherwise: Verdict = "ask"
    mode: PolicyMode = "enforce"


class PolicyVerdict(Wire):
    """The verdict on one call, the rule that gave it, and the digest of the policy.

    `not_judged`: the check would have been too costly, or the rule cannot be used; a person is
    asked. In the mode `log_only` the call was treated as if there were no policy.
    """

    verdict: Verdict
    rule: Rule
    mode: PolicyMode = "enforce"
    digest: Digest

    @property
    def enforced(self) -> Verdict:
        """The verdict as far as it holds the call back."""
        return self.verdict if self.mode == "enforce" else "allow"

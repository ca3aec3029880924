"""Verdicts of policies on tool calls (decision 0116): deny before ask, ask before allow; pure."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache

from answerbus.budget import Spent
from answerbus.policy import PolicyVerdict, Rule, ToolPolicy, Verdict
from answerbus.request import Request
from services.text.digest import canonical_digest
from services.worker.core.guard.effort import TooMuchWorkError
from services.worker.core.schema.resolved import JsonObject
from services.worker.core.schema.validator import SchemaValidator, compile_schema

POLICY_BYTES_MAX = 16 * 1_024  # of one policy, which is frozen into each run with its tool
COMPILED_MAX = 256  # policies kept compiled in a process

_MEMBERS = ("args", "labels", "run")
_ORDER: tuple[Verdict, ...] = ("deny", "ask", "allow")
_STRICTNESS: Mapping[Verdict, int] = {"allow": 0, "ask": 1, "deny": 2}


@dataclass(frozen=True, slots=True)
class CompiledPolicy:
    """A policy whose rules can be asked; a rule that cannot be used is None."""

    policy: ToolPolicy
    digest: str
    rules: tuple[tuple[Verdict, SchemaValidator | None], ...]

    def verdict(self, value: JsonObject) -> PolicyVerdict:
        """On a call as `judged_value` shows it; spends of the effort that is left (effort.py)."""
        for verdict, schema in self.rules:
            try:
                if schema is None:
                    return self._said("ask", "not_judged")
                if schema.is_valid(value):
                    return self._said(verdict, verdict)
            except TooMuchWorkError:
                return self._said("ask", "not_judged")
        return self._said(self.policy.otherwise, "otherwise")

    def _said(self, verdict: Verdict, rule: Rule) -> PolicyVerdict:
        return PolicyVerdict(verdict=verdict, rule=rule, mode=self.policy.mode, digest=self.digest)


def compiled(policy: ToolPolicy) -> CompiledPolicy:
    """Compiled once for all runs that have it."""
    return _compiled(policy.model_dump_json())


@lru_cache(maxsize=COMPILED_MAX)
def _compiled(text: str) -> CompiledPolicy:
    policy = ToolPolicy.model_validate_json(text)
    schemas = ((verdict, compile_schema(schema)) for verdict, schema in _rules(policy))
    rules = tuple(
        (verdict, schema if isinstance(schema, SchemaValidator) else None)
        for verdict, schema in schemas
    )
    return CompiledPolicy(policy, canonical_digest(policy.model_dump(mode="json")), rules)


def judged_value(
    request: Request, args: JsonObject, steps: int, spent: Spent, *, untrusted_read: bool
) -> JsonObject:
    """The value that rules are about: `steps` were taken before, `spent` is of the account."""
    run: JsonObject = {
        "steps": steps,
        "spent": spent.model_dump(),
        "untrusted_read": untrusted_read,
    }
    return {"args": args, "labels": dict(request.labels), "run": run}


def strictness(verdict: PolicyVerdict) -> int:
    """How much of a call it holds back: nothing, until a person decides, or all."""
    return _STRICTNESS[verdict.enforced]


def faults_of(policy: ToolPolicy) -> Iterator[str]:
    """Why a policy cannot be used, each as the end of a sentence."""
    if (size := len(policy.model_dump_json().encode())) > POLICY_BYTES_MAX:
        yield f"it has {size:,} bytes, and {POLICY_BYTES_MAX:,} are the most"
        return
    for verdict, schema in _rules(policy):
        if not isinstance(compile_schema(schema), SchemaValidator):
            yield f"`{verdict}` is not a JSON Schema that can be checked"
        if unknown := sorted(_properties(schema).keys() - set(_MEMBERS)):
            yield (
                f"`{verdict}` is about {json.dumps(unknown[0])}, and a call has "
                "`args`, `labels` and `run`"
            )


def optional_in_allow(policy: ToolPolicy) -> tuple[str, ...]:
    """The arguments that `allow` looks at and does not require: a call without them is allowed."""
    rule = policy.allow or {}
    args = _properties(rule).get("args")
    if not isinstance(args, dict):
        return ()
    names = _properties(args)
    required = args.get("required") if "args" in _listed(rule.get("required")) else None
    return tuple(sorted(names.keys() - set(_listed(required))))


def _rules(policy: ToolPolicy) -> Iterator[tuple[Verdict, JsonObject]]:
    for verdict in _ORDER:
        if (schema := getattr(policy, verdict)) is not None:
            yield verdict, schema


def _properties(schema: JsonObject) -> JsonObject:
    found = schema.get("properties")
    return found if isinstance(found, dict) else {}


def _listed(names: object) -> tuple[str, ...]:
    return tuple(map(str, names)) if isinstance(names, list) else ()

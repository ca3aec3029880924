"""The contract `plan_proposal` v1: one change to a repository that fixes it, or a refusal.

What is published has no `rationale`: models must give one, and it goes to the Attempt alone.
"""

from typing import Annotated, Literal

from pydantic import Field, ValidationInfo, field_validator
from pydantic_core import PydanticCustomError

from answerbus.answers.unified_diff import UnifiedDiff, named_paths
from answerbus.contract import Closed, Contract, Declined
from answerbus.values import Argument, Detail, Rationale, Rule, SandboxedRelativePath

FILES_MAX = 500

_ManifestPath = Annotated[
    SandboxedRelativePath,
    Field(description="Path of the manifest to change, relative to the working tree."),
]
_Package = Annotated[
    Argument, Field(description="Name of the package, as the manifest's ecosystem writes it.")
]
_Why = Annotated[
    Rationale, Field(description="Why this is the right answer, for auditors: at most 2 KiB.")
]


class DepBump(Closed):
    """Set a dependency that the manifest itself declares to another version."""

    kind: Literal["dep_bump"]
    manifest_path: _ManifestPath
    package: _Package
    target_version: Annotated[Argument, Field(description="Version to declare, such as 4.17.21.")]


class Override(Closed):
    """Force the version of a package that others depend on, by an override in the manifest."""

    kind: Literal["override"]
    manifest_path: _ManifestPath
    package: _Package
    forced_version: Annotated[Argument, Field(description="Version to force, such as 6.13.1.")]


class CallsiteRewrite(Closed):
    """Change source files, so that they fit the version of a dependency."""

    kind: Literal["callsite_rewrite"]
    manifest_path: _ManifestPath
    files: Annotated[
        tuple[SandboxedRelativePath, ...],
        Field(
            min_length=1,
            max_length=FILES_MAX,
            description="Every path that the diff names, relative to the working tree.",
        ),
    ]
    diff: Annotated[
        UnifiedDiff,
        Field(
            description="Unified diff as git writes it and nothing around it: `--- a/path`, "
            "`+++ b/path`, hunks with exact line counts; at most 64 KiB, text files only."
        ),
    ]

    @field_validator("diff")
    @classmethod
    def _names_listed_files_only(cls, diff: str, info: ValidationInfo) -> str:
        paths = named_paths(diff)
        if isinstance(paths, Rule):  # cannot be: the type of the field has checked it
            raise PydanticCustomError(paths.code, paths.expected)
        if "files" in info.data and not paths <= set(info.data["files"]):
            raise PydanticCustomError(
                "unlisted_file", "a diff that names only paths that `files` lists letter by letter"
            )
        return diff


class Refuse(Closed):
    """Propose nothing and say why."""

    kind: Literal["refuse"]
    reason: Annotated[
        Literal["out_of_scope", "insufficient_context", "policy_block"],
        Field(
            description="out_of_scope: no such change can fix it; insufficient_context: facts are "
            "missing; policy_block: a rule forbids it."
        ),
    ]
    detail: Annotated[Detail, Field(description="What is missing or in the way, for the asker.")]


PlanProposal = Annotated[DepBump | Override | CallsiteRewrite, Field(discriminator="kind")]
PlanProposalOrRefuse = Annotated[
    DepBump | Override | CallsiteRewrite | Refuse, Field(discriminator="kind")
]


class AskedDepBump(DepBump):
    """Set a dependency that the manifest itself declares to another version."""

    rationale: _Why


class AskedOverride(Override):
    """Force the version of a package that others depend on, by an override in the manifest."""

    rationale: _Why


class AskedCallsiteRewrite(CallsiteRewrite):
    """Change source files, so that they fit the version of a dependency."""

    rationale: _Why


class AskedRefuse(Refuse):
    """Propose nothing and say why."""

    rationale: _Why


AskedPlanProposal = Annotated[
    AskedDepBump | AskedOverride | AskedCallsiteRewrite | AskedRefuse, Field(discriminator="kind")
]


def _declines(answer: PlanProposalOrRefuse) -> Declined | None:
    return Declined(answer.detail, answer.reason) if isinstance(answer, Refuse) else None


PLAN_PROPOSAL: Contract[PlanProposalOrRefuse] = Contract(
    name="plan_proposal",
    version=1,
    answer=PlanProposalOrRefuse,
    result=PlanProposal,
    asked=AskedPlanProposal,
    summary="One change to a repository that fixes a dependency, or a reasoned refusal.",
    audit_only=frozenset({"rationale"}),
    declines=_declines,
    examples=(
        {
            "kind": "dep_bump",
            "manifest_path": "package.json",
            "package": "lodash",
            "target_version": "4.17.21",
        },
        {
            "kind": "refuse",
            "reason": "insufficient_context",
            "detail": "The lock file is missing.",
        },
    ),
)

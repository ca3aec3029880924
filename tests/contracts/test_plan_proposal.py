"""The contract plan_proposal: its four variants, and that its schema is no stricter than it is."""

import json
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from pydantic import TypeAdapter, ValidationError

from answerbus.answers.plan_proposal import (
    FILES_MAX,
    AskedCallsiteRewrite,
    AskedDepBump,
    AskedOverride,
    AskedPlanProposal,
    AskedRefuse,
)

ADAPTER: TypeAdapter[Any] = TypeAdapter(AskedPlanProposal)
DIFF = "--- a/src/app.ts\n+++ b/src/app.ts\n@@ -1 +1 @@\n-a\n+b\n"

DEP_BUMP = {
    "kind": "dep_bump",
    "manifest_path": "package.json",
    "package": "lodash",
    "target_version": "4.17.21",
    "rationale": "fixes the advisory",
}
OVERRIDE = {
    "kind": "override",
    "manifest_path": "packages/a/package.json",
    "package": "qs",
    "forced_version": "6.13.1",
    "rationale": "",
}
REWRITE = {
    "kind": "callsite_rewrite",
    "manifest_path": "package.json",
    "files": ["src/app.ts", "src/other.ts"],
    "diff": DIFF,
    "rationale": "the old call is gone",
}
REFUSE = {
    "kind": "refuse",
    "reason": "insufficient_context",
    "detail": "The lock file is missing.",
    "rationale": "no facts",
}


def validate(answer: object) -> Any:
    return ADAPTER.validate_json(json.dumps(answer), strict=True)


def problems(answer: object) -> list[tuple[str, tuple[int | str, ...]]]:
    """Code and place of each problem."""
    try:
        validate(answer)
    except ValidationError as error:
        return [(found["type"], found["loc"]) for found in error.errors()]
    return []


@pytest.mark.parametrize(
    ("variant", "answer"),
    [
        (AskedDepBump, DEP_BUMP),
        (AskedOverride, OVERRIDE),
        (AskedCallsiteRewrite, REWRITE),
        (AskedRefuse, REFUSE),
    ],
)
def test_each_variant_reads_and_writes_the_same_data(
    variant: type[Any], answer: dict[str, object]
) -> None:
    proposal = validate(dict(reversed(answer.items())))

    assert type(proposal) is variant
    assert ADAPTER.dump_python(proposal, mode="json") == answer
    assert json.loads(ADAPTER.dump_json(proposal)) == answer
    Draft202012Validator(ADAPTER.json_schema()).validate(answer)


def test_a_proposal_does_not_change() -> None:
    proposal = validate(REWRITE)

    with pytest.raises(ValidationError):
        proposal.manifest_path = "../x"
    assert proposal.files == ("src/app.ts", "src/other.ts")


def test_the_variants_are_strict_by_default() -> None:
    with pytest.raises(ValidationError):
        ADAPTER.validate_python(DEP_BUMP | {"package": b"lodash"})


@pytest.mark.parametrize("answer", [DEP_BUMP, OVERRIDE, REWRITE, REFUSE])
def test_every_field_is_required_and_no_other_is_allowed(answer: dict[str, object]) -> None:
    kind = str(answer["kind"])
    for left_out in answer.keys() - {"kind"}:
        partial = {name: value for name, value in answer.items() if name != left_out}
        assert problems(partial) == [("missing", (kind, left_out))]
        assert problems(answer | {left_out: None}) != []
        assert problems(answer | {left_out: 5}) != []
    for extra in ("shell", "__proto__", "Kind", ""):
        assert problems(answer | {extra: "x"}) == [("extra_forbidden", (kind, extra))]


@pytest.mark.parametrize("kind", ["Dep_Bump", "dep-bump", "dep_bump ", "shell", "", None, 1, []])
def test_the_kind_is_one_of_four_words(kind: object) -> None:
    assert problems(DEP_BUMP | {"kind": kind}) == [("union_tag_invalid", ())]


def test_the_kind_cannot_be_left_out() -> None:
    answer = {name: value for name, value in DEP_BUMP.items() if name != "kind"}

    assert problems(answer) == [("union_tag_not_found", ())]


@pytest.mark.parametrize(
    "variant", [AskedDepBump, AskedOverride, AskedCallsiteRewrite, AskedRefuse]
)
def test_the_kind_has_no_default_that_would_let_an_answer_leave_it_out(variant: Any) -> None:
    assert variant.model_fields["kind"].is_required()


@pytest.mark.parametrize("reason", ["OUT_OF_SCOPE", "too_hard", "", None])
def test_a_refusal_has_one_of_three_reasons(reason: object) -> None:
    assert problems(REFUSE | {"reason": reason}) == [("literal_error", ("refuse", "reason"))]
    for known in ("out_of_scope", "insufficient_context", "policy_block"):
        assert validate(REFUSE | {"reason": known}).reason == known


def test_paths_are_sandboxed_wherever_they_stand() -> None:
    hostile = {"manifest_path": "../package.json"}

    assert problems(DEP_BUMP | hostile) == [("escapes_sandbox", ("dep_bump", "manifest_path"))]
    assert problems(OVERRIDE | hostile) == [("escapes_sandbox", ("override", "manifest_path"))]
    assert problems(REWRITE | hostile) == [
        ("escapes_sandbox", ("callsite_rewrite", "manifest_path"))
    ]
    assert problems(REWRITE | {"files": ["src/app.ts", ".git/config"]}) == [
        ("inside_git", ("callsite_rewrite", "files", 1))
    ]
    assert problems(REWRITE | {"diff": DIFF.replace("src", "..")}) == [
        ("escapes_sandbox", ("callsite_rewrite", "diff"))
    ]


@pytest.mark.parametrize(
    "files",
    [["src/other.ts"], ["src/App.ts"], ["src/app.ts.bak", "src"], ["b/src/app.ts", "a/src/app.ts"]],
)
def test_a_diff_names_listed_files_only(files: list[str]) -> None:
    assert problems(REWRITE | {"files": files}) == [("unlisted_file", ("callsite_rewrite", "diff"))]


def test_names_are_compared_character_by_character() -> None:
    composed, decomposed = "src/na\u00efve.py", "src/nai\u0308ve.py"
    diff = DIFF.replace("src/app.ts", decomposed)

    assert problems(REWRITE | {"files": [decomposed], "diff": diff}) == []
    assert problems(REWRITE | {"files": [composed], "diff": diff}) == [
        ("unlisted_file", ("callsite_rewrite", "diff"))
    ]


def test_every_section_and_both_ends_of_a_rename_are_compared() -> None:
    rename = (
        "diff --git a/src/app.ts b/src/new.ts\nsimilarity index 100%\n"
        "rename from src/app.ts\nrename to src/new.ts\n"
    )
    second = DIFF.replace("app", "second")
    unlisted = [("unlisted_file", ("callsite_rewrite", "diff"))]

    for diff, needed in ((second + rename, "src/new.ts"), (DIFF + second, "src/second.ts")):
        complete = REWRITE | {"diff": diff, "files": ["src/app.ts", "src/new.ts", "src/second.ts"]}
        assert problems(complete) == []
        files = [file for file in ("src/app.ts", "src/new.ts", "src/second.ts") if file != needed]
        assert problems(complete | {"files": files}) == unlisted


def test_files_are_a_list_of_one_to_500_paths() -> None:
    many = ["src/app.ts", *(f"src/{number}.ts" for number in range(1, FILES_MAX))]

    assert validate(REWRITE | {"files": many}).files == tuple(many)
    assert problems(REWRITE | {"files": [*many, "src/more.ts"]})[0][0] == "too_long"
    assert problems(REWRITE | {"files": []}) == [("too_short", ("callsite_rewrite", "files"))]
    assert problems(REWRITE | {"files": "src/app.ts"})[0][0] == "tuple_type"


def test_of_a_name_that_stands_twice_the_last_one_counts() -> None:
    twice = '{"manifest_path": "%s", ' + json.dumps(DEP_BUMP)[1:-1] + ', "manifest_path": "%s"}'

    assert ADAPTER.validate_json(twice % ("../x", "a/b.json")).manifest_path == "a/b.json"
    with pytest.raises(ValidationError):
        ADAPTER.validate_json(twice % ("a/b.json", "../x"))


@pytest.mark.parametrize(
    "raw",
    ["", "null", "[]", '"{}"', "{}", "{} {}", "[" * 50_000, '{"kind": NaN}', "\ufeff{}",
     json.dumps([DEP_BUMP]), json.dumps({"plan": DEP_BUMP}), json.dumps(DEP_BUMP)[:-1],
     json.dumps(DEP_BUMP) * 2, f"```json\n{json.dumps(DEP_BUMP)}\n```",
     json.dumps(DEP_BUMP | {"package": "\ud800"}), b"\xff{}",
     json.dumps(DEP_BUMP).replace("lodash", "lo\ndash")],
)  # fmt: skip
def test_anything_but_one_json_object_is_a_validation_error(raw: str | bytes) -> None:
    with pytest.raises(ValidationError):
        ADAPTER.validate_json(raw, strict=True)


def test_the_schema_helps_a_model_to_choose_and_fill_in() -> None:
    schema = ADAPTER.json_schema()
    variants = schema["$defs"].values()

    Draft202012Validator.check_schema(schema)
    assert all(variant["description"] for variant in variants)
    assert all(
        field.get("description") or field.get("const")
        for variant in variants
        for field in variant["properties"].values()
    )
    assert all(set(variant["required"]) == set(variant["properties"]) for variant in variants)


def test_the_schema_is_not_stricter_than_the_contract_at_the_limits() -> None:
    validator = Draft202012Validator(ADAPTER.json_schema())
    path = "/".join(["n" * 127] * 32)
    room = 65_536 - len(DIFF.encode())
    limits = [
        DEP_BUMP | {"manifest_path": path, "package": "x" * 2_048, "rationale": "x" * 2_048},
        OVERRIDE | {"forced_version": "x" * 2_048, "rationale": "é" * 1_024},
        REFUSE | {"detail": "x" * 2_048},
        REWRITE | {"diff": DIFF.replace("+b", "+b" + "x" * room)},
    ]

    for answer in limits:
        assert problems(answer) == []
        validator.validate(answer)

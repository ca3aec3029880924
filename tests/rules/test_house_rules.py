"""Rules of the house that no linter knows, read off the source itself."""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.rules.source import ROOT, nodes, tree

CODE = ("contracts/answerbus", "services", "infra")
FILE_LINES_MAX = 400
TEST_LINES_MAX = 500
FUNCTION_LINES_MAX = 60
CASE_STATEMENTS_MAX = 3  # of a function that is a table
BANNED_NAMES = {"utils", "helpers", "common", "base", "manager"}
CONTRACTS_MAY_IMPORT = {
    "answerbus",
    "annotated_types",
    "pydantic",
    "pydantic_core",
    "typing_extensions",
}


def modules(*folders: str) -> list[Path]:
    return sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))


def imports(path: Path) -> Iterator[str]:
    for node in nodes(path):
        match node:
            case ast.Import(names=names):
                yield from (name.name for name in names)
            case ast.ImportFrom(module=str(module), level=0):
                yield module
            case _:
                pass


def faults(path: Path) -> Iterator[str]:
    """What is wrong with a module of the product, or of the tests."""
    lines = len(path.read_text(encoding="utf-8").splitlines())
    is_test = path.is_relative_to(ROOT / "tests")
    if path.stem in BANNED_NAMES:
        yield "is called by no concept"
    if lines > (TEST_LINES_MAX if is_test else FILE_LINES_MAX):
        yield f"has {lines} lines"
    if is_test:
        return
    module = tree(path)
    if module.body and not ast.get_docstring(module):
        yield "does not say what it is for"
    for node in nodes(path):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = (node.end_lineno or 0) - node.lineno
            if lines >= FUNCTION_LINES_MAX and not is_table(node):
                yield f"has {lines} lines in {node.name}"
        elif isinstance(node, ast.Attribute) and node.attr == "model_construct":
            yield f"makes something without validation in line {node.lineno}"


def is_table(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether it is one `match` over a union, which grows with that: a few lines for each case."""
    *before, last = function.body
    if not isinstance(last, ast.Match) or not all(isinstance(one, ast.Expr) for one in before):
        return False
    return all(len(case.body) <= CASE_STATEMENTS_MAX for case in last.cases)


def test_a_module_says_what_it_is_for_and_stays_small() -> None:
    every = modules(*CODE, "tests")

    assert len(every) > 1_000
    assert [f"{path.relative_to(ROOT)} {what}" for path in every for what in faults(path)] == []


def test_the_contracts_install_alone() -> None:
    for path in modules("contracts/answerbus"):
        allowed = CONTRACTS_MAY_IMPORT | set(sys.stdlib_module_names)
        if path.is_relative_to(ROOT / "contracts/answerbus/client"):
            allowed = allowed | {"aiokafka", "cramjam"}
        if path.is_relative_to(ROOT / "contracts/answerbus/client/testing"):
            allowed = allowed | {"jsonschema_rs"}  # the extra `testing`
        if path.parent.name == "tools":  # the extra `tools` brings what the client needs
            allowed = allowed | {"aiokafka"}
        if path.name == "pytest_plugin.py":  # loaded by those who have pytest, and ask for it
            allowed = allowed | {"pytest"}
        roots = {name.split(".")[0] for name in imports(path)}

        assert roots <= allowed, path


def test_events_are_half_read_in_one_place() -> None:
    """Operators' code reads a record by its summary, or whole by the codec: no third form of it."""
    forms = {"BaseModel", "TypedDict", "Struct", "Wire"}
    partial = {
        path.relative_to(ROOT).as_posix()
        for path in modules("services/operators", "services/console")
        for node in nodes(path)
        if isinstance(node, ast.ClassDef) and {ast.unparse(base) for base in node.bases} & forms
    }

    assert partial == {
        "services/operators/records/event_parts.py",
        "services/operators/records/stored.py",
        "services/operators/records/summary.py",
    }


def test_audit_only_text_has_no_way_into_a_prompt() -> None:
    """`rationale` is known to the few modules that take it to the Attempt, and to no other."""
    knowing = {
        path.relative_to(ROOT / "services").as_posix()
        for path in modules("services")
        if "rationale" in path.read_text(encoding="utf-8").lower()
    }

    assert knowing <= {
        "worker/core/schema/resolved.py",
        "worker/core/budget/audit.py",
        "worker/core/outcome/call.py",
        "worker/core/schema/resolve.py",
        "worker/core/run/step_schema.py",  # thoughts go to the Attempt
    }


def test_the_system_text_is_joined_of_trusted_pieces_alone() -> None:
    """`system=` is given once, from a list that this test spells out."""
    source = tree(ROOT / "services/worker/core/attempt/prompt.py")
    given = [
        ast.unparse(keyword.value)
        for node in ast.walk(source)
        if isinstance(node, ast.Call)
        for keyword in node.keywords
        if keyword.arg == "system"
    ]
    pieces = [
        ast.unparse(node.value)
        for node in ast.walk(source)
        if isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Name)
        and node.targets[0].id == "system"
    ]

    assert given == ["'\\n\\n'.join((part for part in system if part))"]
    assert pieces == [
        "[_RULES, schema, wire.instructions, data_rules, request.context.instructions]"
    ]


def test_whatever_writes_in_transactions_renews_its_epoch() -> None:
    """aiokafka's own producer goes on in an epoch in which a request may still be on its way."""
    makers = {
        ast.unparse(node.func)
        for path in modules("contracts/answerbus", "services", "examples")
        for node in nodes(path)
        if isinstance(node, ast.Call)
        and any(keyword.arg == "transactional_id" for keyword in node.keywords)
    }

    assert makers == {"TransactionalProducer"}


def is_now(node: ast.Attribute) -> bool:
    return node.attr == "now" and ast.unparse(node) == "datetime.now"


def test_only_settings_read_the_environment_and_only_the_clock_the_time() -> None:
    readers = {
        path.relative_to(ROOT).as_posix()
        for path in modules("contracts/answerbus", "services")
        for node in nodes(path)
        if isinstance(node, ast.Attribute) and (node.attr in {"environ", "getenv"} or is_now(node))
    }

    assert readers <= {
        "services/settings/settings.py",
        "services/worker/adapters/clock.py",
        "contracts/answerbus/client/client.py",
        "contracts/answerbus/tools/serving.py",
    }

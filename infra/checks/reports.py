"""Reads pytest's JUnit files: counts, and the tests that failed."""

import xml.etree.ElementTree as ET
from collections import Counter
from pathlib import Path


def counts(report: Path) -> Counter[str]:
    """How many tests ended how; nothing for a step that has no report."""
    total: Counter[str] = Counter()
    if not report.exists():
        return total
    for suite in ET.parse(report).getroot().iter("testsuite"):
        failed, skipped, errors, tests = (
            int(suite.get(key, 0)) for key in ("failures", "skipped", "errors", "tests")
        )
        passed = tests - failed - skipped - errors
        total.update(failed=failed, passed=passed, skipped=skipped, errors=errors)
    return +total


def failed(report: Path) -> list[str]:
    """The tests that failed or had an error, by module and name."""
    if not report.exists():
        return []
    found = [
        f"{case.get('classname')}::{case.get('name')}"
        for case in ET.parse(report).getroot().iter("testcase")
        if case.find("failure") is not None or case.find("error") is not None
    ]
    return [*dict.fromkeys(found)]  # one that fails, and then at its teardown, is reported twice

"""Our alert rules with windows and waits a sixtieth as long; other thresholds stay as they are.

The age of an approval is a wait.
"""

import re

import yaml

from tests.infra.compose import ROOT

FASTER = 60
RULES = ROOT / "infra/prometheus/alerts.yml"
_TIME = re.compile(r"(\d+)([smhd])")
_APPROVAL_AGE = re.compile(r"(?<=answerbus_approval_age_seconds\) > )\d+")
_SECONDS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}


def quick_rules() -> str:
    """What Prometheus reads."""
    document = yaml.safe_load(RULES.read_text(encoding="utf-8"))
    for group in document["groups"]:
        for rule in group["rules"]:
            rule["expr"] = re.sub(
                r"(\[|offset )(\w+)",
                lambda found: found[1] + _shorter(found[2]),
                str(rule["expr"]),
            )
            rule["expr"] = _APPROVAL_AGE.sub(
                lambda found: str(int(found[0]) // FASTER), rule["expr"]
            )
            if "for" in rule:
                rule["for"] = _shorter(rule["for"])
    return yaml.safe_dump(document, sort_keys=False)


def _shorter(text: str) -> str:
    seconds = sum(int(number) * _SECONDS[unit] for number, unit in _TIME.findall(text))
    return f"{max(seconds // FASTER, 1)}s"


def names() -> list[str]:
    """Every alert there is."""
    document = yaml.safe_load(RULES.read_text(encoding="utf-8"))
    return [rule["alert"] for group in document["groups"] for rule in group["rules"]]

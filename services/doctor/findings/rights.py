"""Judges whether the rights of a role are there; pure."""

from collections.abc import Iterator, Mapping

from services.doctor.findings.finding import Finding
from services.topics.rights.roles import TOOLSET_DEFAULT, Right, Role

ABOUT = "rights"


def rights_findings(
    role: Role, held: Mapping[Right, bool | None], toolset: str = TOOLSET_DEFAULT
) -> Iterator[Finding]:
    """One line for each right that is missing, and one that says what all is well."""
    of_toolset = "" if toolset == TOOLSET_DEFAULT else f" --toolset {toolset}"
    how = f"`answerbus topics acls --role {role}{of_toolset}` prints all"
    for right, is_held in held.items():
        if is_held is False:
            verb = "needs" if right.needed else "may have"
            message = (
                f"no right to {right}, which the role {role} {verb} ({right.why}): grant it, {how}"
            )
            yield Finding(ABOUT, "wrong" if right.needed else "warning", message)
    hidden = {right.name for right, is_held in held.items() if is_held is False}
    unclear = (right for right, is_held in held.items() if is_held is None and right.needed)
    unknown = [str(right) for right in unclear if right.name not in hidden]
    if unknown:
        text = (
            f"whether these are granted cannot be told: {', '.join(unknown)}; the topic is "
            "missing, or the broker does not say"
        )
        yield Finding(ABOUT, "warning", text)
    if all(held[right] for right in held if right.needed):
        count = sum(is_held is True for is_held in held.values())
        yield Finding(ABOUT, "ok", f"all that the role {role} needs, {count} of {len(held)}")

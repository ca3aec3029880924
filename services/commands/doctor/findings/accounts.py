"""What accounts take in the memory of workers, by the measured rate of requests; pure."""

from services.commands.doctor.findings.facts import Finding

ACCOUNT_BYTES = 110  # of one without an open request (docs/guarantees.md)
WARNING_BYTES = 2 * 1024**3  # over all workers
_GB = 1e9


def accounts_finding(requests_per_s: float, remember_s: float) -> Finding:
    """If each request began a workflow: the most that it can be."""
    memory_bytes = requests_per_s * remember_s * ACCOUNT_BYTES
    text = (
        f"{requests_per_s:.2g} requests/s in the last hour × `accounts.remember_s` of "
        f"{remember_s:,.0f} s × {ACCOUNT_BYTES} bytes: if each is a workflow of its own, accounts "
        f"take {memory_bytes / _GB:.2f} GB over all workers"
    )
    if memory_bytes < WARNING_BYTES:
        return Finding("accounts", "ok", text)
    advice = "give workers that much, or set `accounts.remember_s` to how long a workflow may rest"
    return Finding("accounts", "warning", f"{text}; {advice}")

"""What an operator should know though the worker goes on; no reason to be unready."""

from services.worker.health.watched import HealthInputs


def advice(inputs: HealthInputs) -> tuple[str, ...]:
    """One sentence each."""
    used = inputs.context.partitions
    beyond = [str(number) for number in sorted(inputs.membership.lifecycles) if number >= used]
    if not beyond:
        return ()
    which = f"partition {beyond[0]}" if len(beyond) == 1 else f"partitions {', '.join(beyond)}"
    said = (
        f"{which} of the requests topic: beyond the {used} of this deployment, forwarded to their "
        "owners; `answerbus topics move` changes the number"
    )
    return (said,)

"""Reasons and advice that concern all lanes of a worker, in one sentence each."""

import asyncio
from collections.abc import Iterator

from services.kafka.planning.clock_offset import clock_problem
from services.worker.adapters.kafka.membership import RESTLESS_COUNT, RESTLESS_S, Membership
from services.worker.health.watched import HealthInputs

OPENING_S = 2.0  # most lanes open faster


def reasons(inputs: HealthInputs) -> Iterator[str | None]:
    """One for each thing that may be wrong; None where it is not."""
    yield _recent_stall(inputs) or _kafka(inputs)
    yield inputs.brokers.trouble
    yield _rebalances_often(inputs.membership)
    yield not_read(inputs)
    yield inputs.signals.trouble
    yield clock_problem(inputs.clock_ahead_s())
    yield _opening(inputs.membership)


def _kafka(inputs: HealthInputs) -> str | None:
    silent_s = inputs.probe.silent_s
    if silent_s <= inputs.stuck_after_s:
        return None
    trouble = inputs.probe.trouble
    return f"Kafka has not answered for {silent_s:.0f} s{f' ({trouble})' if trouble else ''}"


def not_read(inputs: HealthInputs) -> str | None:
    """Why no request is read at all, though Kafka answers."""
    if inputs.probe.missing:
        return inputs.probe.missing
    outside_since, bound_s = inputs.membership.outside_since, inputs.stuck_after_s
    if outside_since is None:
        return inputs.read_monitor.problem(bound_s)
    outside_s = asyncio.get_running_loop().time() - outside_since
    message = f"has been no member of the consumer group for {outside_s:.0f} s: {_outside(inputs)}"
    return inputs.read_monitor.problem(outside_s + bound_s) or (
        message if outside_s > bound_s else None
    )


def _opening(membership: Membership) -> str | None:
    """How far lanes are that take long to read their past."""
    now = asyncio.get_running_loop().time()
    lanes = [lifecycle.lane for lifecycle in membership.lifecycles.values()]
    late = [lane for lane in lanes if lane.progress and now - lane.entered_at > OPENING_S]
    found = [lane.progress for lane in late if lane.progress and lane.progress.ends]
    if not found:
        return None
    done, whole = sum(it.done for it in found), sum(it.whole for it in found)
    named = ", ".join(str(number) for number in sorted(lane.partition for lane in late))
    share = 100 * done // whole if whole > 0 else 100
    return (
        f"lanes are opening, and have read {done:,} of {whole:,} offsets of ledger and retries "
        f"({share} %): {named}"
    )


def _outside(inputs: HealthInputs) -> str:
    if trouble := inputs.coordinator.trouble:
        return f"the group has no coordinator ({trouble})"
    return "the group rebalances" if inputs.membership.was_member else "it has never joined"


def _rebalances_often(membership: Membership) -> str | None:
    if not membership.rebalances_often:
        return None
    return (
        f"partitions were assigned {RESTLESS_COUNT} times within {RESTLESS_S:.0f} s: two workers "
        "with one `kafka.group_instance_id` do that, and so do workers that start and die in turns"
    )


def _recent_stall(inputs: HealthInputs) -> str | None:
    """After it stood still a worker may own nothing any more, and not know it yet."""
    stall, now = inputs.loop_monitor.last_stall, asyncio.get_running_loop().time()
    if stall is None:
        return None
    stood = f"the process stood still for {stall.lasted_s:.0f} s"
    if inputs.probe.answered_at <= stall.ended_at:
        return f"{stood}, and Kafka has not answered since"
    session_s = inputs.session_s
    has_been_evicted = stall.lasted_s >= session_s
    has_returned = inputs.membership.assigned_at > stall.ended_at
    if has_been_evicted and not has_returned and now - stall.ended_at < session_s:
        return f"{stood}, and its partitions have not been given back"
    return None


def advice(inputs: HealthInputs) -> tuple[str, ...]:
    """Warnings for operators while the worker goes on; no reason to be unready."""
    off = inputs.context.runs.off_because
    runs_off = (off,) if off else ()
    return (*_beyond(inputs), *runs_off, *inputs.advice(), *inputs.tools.notes())


def _beyond(inputs: HealthInputs) -> tuple[str, ...]:
    used = inputs.context.partitions
    beyond = [str(number) for number in sorted(inputs.membership.lifecycles) if number >= used]
    if not beyond:
        return ()
    which = f"partition {beyond[0]}" if len(beyond) == 1 else f"partitions {', '.join(beyond)}"
    message = (
        f"{which} of the requests topic: beyond the {used} of this deployment, forwarded to their "
        "owners; `answerbus topics move` changes the number"
    )
    return (message,)

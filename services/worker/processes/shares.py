"""Each process's share of limits that the settings state for all processes together."""

from services.settings.profiles import Profile
from services.settings.settings import KafkaSettings, Settings, SetUpError
from services.settings.worker import WorkerSettings


def share(settings: Settings, number: int, processes: int) -> Settings:
    """The settings of process `number` (from 0). Raises SetUpError where there is too little."""
    return settings.model_copy(
        update={
            "kafka": _kafka(settings.kafka, number),
            "worker": _worker(settings.worker, number, processes),
            "profiles": {
                name: _profile(name, profile, number, processes)
                for name, profile in settings.profiles.items()
            },
        }
    )


def _kafka(kafka: KafkaSettings, number: int) -> KafkaSettings:
    if kafka.group_instance_id is None:
        return kafka
    return kafka.model_copy(update={"group_instance_id": f"{kafka.group_instance_id}-{number}"})


def _worker(worker: WorkerSettings, number: int, processes: int) -> WorkerSettings:
    """Health ports count up from the one that is named; port 0 is any free one for each."""
    host, _, port = worker.health.rpartition(":")
    counted = port.isdigit() and port != "0"
    return worker.model_copy(
        update={
            "name": worker.name and f"{worker.name}-{number}",
            "health": f"{host}:{int(port) + number}" if counted else worker.health,
            "max_in_flight": _part("worker.max_in_flight", worker.max_in_flight, number, processes),
            "held_max": _part("worker.held_max", worker.held_max, number, processes),
        }
    )


def _profile(name: str, profile: Profile, number: int, processes: int) -> Profile:
    if profile.scope == "group":  # each process is a worker of the group, and has its lanes' part
        return profile
    limits = ("max_in_flight", "requests_per_minute", "tokens_per_minute")
    stated = {limit: getattr(profile, limit) for limit in limits}
    parts = {
        limit: _part(f"profiles.{name}.{limit}", whole, number, processes)
        for limit, whole in stated.items()
        if whole is not None
    }
    return profile.model_copy(update=parts)


def _part(setting: str, whole: int, number: int, processes: int) -> int:
    if whole < processes:
        raise SetUpError(
            f"Setting `{setting}` is {whole}, too little to be shared by {processes} processes; "
            "raise it, or start fewer."
        )
    return whole // processes + (number < whole % processes)

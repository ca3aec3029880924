"""Groups of workers, as a coordinator tells them, or fails to."""

from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka.errors import (
    CoordinatorLoadInProgressError,
    GroupAuthorizationFailedError,
    KafkaError,
)

from services.kafka.worker_groups import groups_of_workers, members_of


class Admin:
    """Answers with one error for all groups, or with one member of each."""

    def __init__(self, error_code: int = 0) -> None:
        self.error_code = error_code

    async def describe_consumer_groups(self, groups: list[str]) -> list[Any]:
        assert len(groups) == 1, "aiokafka reads a second one wrongly"
        member = {"client_id": "someone", "member_metadata": b""}
        found = {
            "error_code": self.error_code,
            "group": groups[0],
            "members": [] if self.error_code else [member],
        }
        return [SimpleNamespace(to_object=lambda: {"groups": [found]})]

    async def list_consumer_groups(self) -> list[Any]:
        return [("a", "consumer"), ("b", "consumer"), ("connect", "connect")]


async def told(error_code: int) -> Any:
    admin: Any = Admin(error_code)
    return await groups_of_workers(admin, "requests")


async def test_members_are_counted() -> None:
    admin: Any = Admin()

    assert await members_of(admin, "a") == 1
    assert await told(0) == {"a": False, "b": False}


@pytest.mark.parametrize("code", [14, 15, 16, 30])
async def test_an_error_is_no_group_without_members(code: int) -> None:
    admin: Any = Admin(code)

    with pytest.raises(KafkaError, match="a"):
        await members_of(admin, "a")


async def test_a_coordinator_that_loads_is_an_error_and_a_hidden_group_is_left_out() -> None:
    with pytest.raises(CoordinatorLoadInProgressError):
        await told(CoordinatorLoadInProgressError.errno)

    assert await told(GroupAuthorizationFailedError.errno) == {}

"""A subscription without a consumer group is refused in words of ours."""

from typing import Any

import pytest

from answerbus.client import Client


@pytest.mark.parametrize("group_id", [None, ""])
def test_a_subscription_needs_the_name_of_a_group(group_id: Any) -> None:
    with pytest.raises(ValueError, match="`group_id` is the name of a consumer group"):
        Client("localhost:1").subscribe(response_model=str, group_id=group_id)

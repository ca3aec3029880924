"""Histograms tell long calls from the longest that the settings allow."""

import pytest
from pydantic import ValidationError

from answerbus.limits import RUN_TTL_S_MAX, TTL_S_MAX
from services.settings.profiles import OpenAIProfile
from services.telemetry.metrics import CALL_DURATION, REQUEST_DURATION, RUN_DURATION


def test_the_last_bucket_of_calls_is_the_longest_time_out() -> None:
    longest_s = CALL_DURATION.buckets[-1]
    profile = {"provider": "openai", "model": "m"}

    assert OpenAIProfile.model_validate({**profile, "timeout_s": longest_s}).timeout_s == longest_s
    with pytest.raises(ValidationError):
        OpenAIProfile.model_validate({**profile, "timeout_s": longest_s + 1})


def test_the_last_bucket_of_requests_is_the_longest_time_to_live() -> None:
    assert TTL_S_MAX in REQUEST_DURATION.buckets
    assert REQUEST_DURATION.buckets[-1] == RUN_DURATION.buckets[-1] == RUN_TTL_S_MAX

"""Histograms tell long calls from the longest that the settings allow."""

import pytest
from pydantic import ValidationError

from services.settings.profiles import OpenAIProfile
from services.telemetry.metrics import CALL_DURATION


def test_the_last_bucket_of_calls_is_the_longest_time_out() -> None:
    longest_s = CALL_DURATION.buckets[-1]
    profile = {"provider": "openai", "model": "m"}

    assert OpenAIProfile.model_validate({**profile, "timeout_s": longest_s}).timeout_s == longest_s
    with pytest.raises(ValidationError):
        OpenAIProfile.model_validate({**profile, "timeout_s": longest_s + 1})

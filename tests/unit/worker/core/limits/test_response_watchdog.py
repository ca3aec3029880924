"""A provider that is asked and says nothing: since when, and when nobody need worry."""

from services.worker.core.limits.response_watchdog import RECENTLY_S, ResponseWatchdog


def test_it_lasts_from_the_first_call_after_the_last_word() -> None:
    silence = ResponseWatchdog()
    silence.called(10.0, others=False)
    silence.called(12.0, others=True)

    assert silence.lasts_s(15.0, calls=True) == 5.0

    silence.responded(16.0, others=True)

    assert silence.lasts_s(20.0, calls=True) == 4.0


def test_who_has_said_all_there_is_to_say_may_be_silent() -> None:
    silence = ResponseWatchdog()
    silence.called(10.0, others=False)
    silence.responded(11.0, others=False)

    assert silence.lasts_s(1_000.0, calls=False) == 0.0

    silence.called(2_000.0, others=False)

    assert silence.lasts_s(2_003.0, calls=True) == 3.0


def test_it_goes_on_between_one_timeout_and_the_next_try() -> None:
    silence = ResponseWatchdog()
    silence.called(0.0, others=False)
    silence.missed(5.0)

    assert silence.lasts_s(6.0, calls=False) == 6.0

    silence.called(20.0, others=False)

    assert silence.lasts_s(21.0, calls=True) == 21.0


def test_it_expires_after_the_last_try() -> None:
    silence = ResponseWatchdog()
    silence.called(0.0, others=False)
    silence.missed(5.0)

    assert silence.lasts_s(5.0 + RECENTLY_S, calls=False) == 0.0

    silence.called(100.0, others=False)

    assert silence.lasts_s(101.0, calls=True) == 1.0


def test_where_calls_are_long_the_worry_comes_later() -> None:
    silence = ResponseWatchdog()

    assert silence.bound_s(45.0) == 45.0

    silence.served(100.0)

    assert silence.bound_s(45.0) == 300.0

    for _ in range(100):
        silence.served(1.0)

    assert silence.bound_s(45.0) == 45.0

"""The geometry of the plots."""

from services.console.views.plot import HEIGHT, Part, Plot, stacked


def test_bars_are_stacked_on_a_round_scale() -> None:
    assert stacked({"good": [4, 0], "bad": [2, 0]}) == Plot(
        (
            Part("good", 22.5, HEIGHT * 0.6, 255.0, HEIGHT * 0.4),
            Part("bad", 22.5, HEIGHT * 0.4, 255.0, HEIGHT * 0.2),
        ),
        10,
    )
    assert stacked({"none": []}) == Plot((), 1)

"""The shortest of several durations, by a clock of the test."""

from __future__ import annotations

import pytest

from semco.training import timing


@pytest.mark.parametrize(
    ("durations", "expected"),
    [
        ([9.0, 1.4, 1.5], 1.4),  # the first warms up; two long repeats are enough
        ([9.0, 0.4, 0.5, 0.3, 0.4], 0.3),  # four of middle length
        ([9.0, 0.1, 0.05, 0.03, 0.02, 0.11], 0.02),  # short ones are repeated until they add up to SECONDS
        ([0.01, 5.0, 6.0], 5.0),  # a first one that is short by chance does not count
    ],
)
def test_the_shortest_time_after_warming_up(
    durations: list[float], expected: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, left = [0.0], list(durations)
    monkeypatch.setattr(timing, "SECONDS", 0.3)
    monkeypatch.setattr(timing.time, "perf_counter", lambda: now[0])

    def run() -> None:
        now[0] += left.pop(0)

    assert timing.shortest_time(run) == pytest.approx(expected)
    assert left == []

"""The measurement of views: what it says, not how fast."""

from __future__ import annotations

from semco.bench.augment import augment


def test_times_and_ratios_belong_together() -> None:
    result = augment(size=16, batch=8, repeats=1)
    assert (result["size"], result["batch"]) == (16, 8)
    for kind in ("weak", "strong", "pair"):
        ours, pillow = result["ours_us"][kind], result["pillow_us"][kind]
        assert ours > 0
        assert abs(result["ratio"][kind] - pillow / ours) < 0.01

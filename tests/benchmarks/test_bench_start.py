"""The measurement of starting."""

from __future__ import annotations

import pytest

from benchmarks import start
from benchmarks.start import HELP, PLAN, STEP, TORCH, bench_start, child_cpu_seconds
from semco.errors import UserError


def test_importing_torch_is_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = {TORCH: 1.0, HELP: 0.25, PLAN: 4.0, STEP: 2.0}
    monkeypatch.setattr(start, "child_cpu_seconds", lambda what, *_: seconds[what])
    rows = {row.what: row for row in bench_start(repeats=2)}
    assert {what: row.share for what, row in rows.items()} == {HELP: None, PLAN: 0.25, STEP: 0.5}


def test_work_counts_and_a_failure_has_its_reason() -> None:
    busy = "import time\nwhile time.process_time() < 0.3: pass"
    assert 0.3 <= child_cpu_seconds("work", ["-S", "-c", busy], threads=1) < 3
    with pytest.raises(UserError, match=r"process of the work stopped \(broken\)"):
        child_cpu_seconds("work", ["-S", "-c", "raise SystemExit('broken')"], threads=1)

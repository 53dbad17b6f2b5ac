"""The measurement of the service, on a tiny network."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.predict import make_model, make_photos
from benchmarks.serve import _rows, running_service, send_from_clients, time_single_photos
from semco.errors import UserError
from semco.evaluation.model_file import save_model


def test_percentiles_stand_beside_the_time_of_single_photos() -> None:
    p50, p99 = _rows(8, [0.1, 0.2, 0.3], 0.05)
    assert (p50.best, p50.alternative) == (pytest.approx(200), pytest.approx(400))
    assert p99.best == pytest.approx(298)


@pytest.mark.usefixtures("forked_processes")
def test_every_request_is_answered_and_bad_ones_are_not_measured(tmp_path: Path) -> None:
    save_model(tmp_path, make_model("wrn-10-1", 32))
    paths = make_photos(tmp_path, 2)
    assert time_single_photos(tmp_path, threads=1) > 0
    with running_service(tmp_path, threads=1) as port:
        seconds = send_from_clients(port, [path.read_bytes() for path in paths], clients=3, requests=9)
        assert len(seconds) == 9
        assert min(seconds) > 0
        with pytest.raises(UserError, match="answered 415"):
            send_from_clients(port, [b"no photo"], clients=1, requests=2)


@pytest.mark.usefixtures("forked_processes")
def test_a_service_that_does_not_start_says_why(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="process of the service stopped"), running_service(tmp_path, threads=1):
        pass

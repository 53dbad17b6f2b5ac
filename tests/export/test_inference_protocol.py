"""The Open Inference Protocol, by hand and by Triton's own client."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import semco
from semco.export.inference_protocol import BadRequestError, parse_request, response
from semco.export.service import Limits
from tests.conftest import tiny_images
from tests.export.test_service import Server, png


@pytest.fixture(scope="module")
def server(run: Path) -> Iterator[Server]:
    started = Server(run, Limits(photos=3))
    yield started
    started.close()


@pytest.fixture(scope="module")
def images() -> np.ndarray:
    return tiny_images(3, seed=9)[0][:2]


@pytest.fixture(scope="module")
def pixels(images: np.ndarray) -> np.ndarray:
    """The images as photos (N, H, W, 3)."""
    return np.repeat(images[..., None], 3, axis=3) if images.ndim == 3 else images


def test_a_client_of_triton(server: Server, run: Path, pixels: np.ndarray) -> None:
    client_module = pytest.importorskip("tritonclient.http")
    client = client_module.InferenceServerClient(f"127.0.0.1:{server.port}")
    assert client.is_server_live()
    assert client.is_server_ready()
    assert client.is_model_ready("semco")
    assert client.get_server_metadata()["name"] == "semco"
    assert client.get_model_metadata("semco")["inputs"][0]["datatype"] == "UINT8"
    expected = semco.load(run, engine="torch").predict_proba(pixels)
    for binary in (True, False):
        tensor = client_module.InferInput("photos", list(pixels.shape), "UINT8")
        tensor.set_data_from_numpy(pixels, binary_data=binary)
        found = client.infer("semco", [tensor], request_id="7")
        np.testing.assert_allclose(found.as_numpy("probabilities"), expected, atol=1e-6)
        assert found.get_response()["id"] == "7"
    files = np.array([png(image) for image in pixels], dtype=np.object_)
    tensor = client_module.InferInput("photos", [len(files)], "BYTES")
    tensor.set_data_from_numpy(files, binary_data=True)
    found = client.infer("semco", [tensor], outputs=[client_module.InferRequestedOutput("probabilities")])
    np.testing.assert_allclose(found.as_numpy("probabilities"), expected, atol=1e-6)
    assert found.as_numpy("label") is None
    client.close()


def test_json_alone(server: Server, run: Path, pixels: np.ndarray) -> None:
    files = [base64.b64encode(png(image)).decode() for image in pixels]
    body = {"inputs": [{"name": "photos", "shape": [2], "datatype": "BYTES", "data": files}]}
    status, answer = server.ask(json.dumps(body).encode(), "/v2/models/semco/infer")
    labels = [each.label for each in semco.load(run, engine="torch").predict(pixels)]
    assert status == 200
    assert {each["name"]: each["data"] for each in answer["outputs"]}["label"] == labels


def test_a_photo_that_cannot_be_read(server: Server) -> None:
    data = [base64.b64encode(b"no photo").decode()]
    body = {"inputs": [{"name": "photos", "shape": [1], "datatype": "BYTES", "data": data}]}
    status, answer = server.ask(json.dumps(body).encode(), "/v2/models/semco/infer")
    assert status == 415
    assert answer["error"].startswith("a photo cannot be read: ")


def test_an_unknown_model(server: Server) -> None:
    assert server.ask(b"{}", "/v2/models/other/infer")[0] == 404


def tensor(**changes: Any) -> bytes:
    whole = {"name": "photos", "shape": [1, 1, 1, 3], "datatype": "UINT8", "data": [1, 2, 3]} | changes
    return json.dumps({"inputs": [whole]}).encode()


def test_pixels_are_read_in_the_order_of_their_shape() -> None:
    found = parse_request(tensor(shape=[1, 1, 2, 3], data=[[[[1, 2, 3], [4, 5, 6]]]]), None, 5)
    assert isinstance(found.photos, np.ndarray)
    assert found.photos.tolist() == [[[[1, 2, 3], [4, 5, 6]]]]
    assert found.outputs == ("probabilities", "label")


@pytest.mark.parametrize(
    ("body", "length", "message"),
    [
        (b"[]", None, "begin with a JSON object"),
        (b"{", None, "begin with a JSON object"),
        (b"{}", "9", "not the length of a part"),
        (b"{}", "x", "not the length of a part"),
        (b"{}", None, "a list of one tensor"),
        (tensor(name="x"), None, "called 'photos'"),
        (tensor(shape=[1, 1, 1, True]), None, "the shape"),
        (tensor(shape=[9, 1, 1, 3]), None, "1 to 5 photos, not 9"),
        (tensor(shape=[1, 1, 1, 4]), None, "UINT8 of the shape"),
        (tensor(datatype="FP32"), None, "UINT8 of the shape"),
        (tensor(data=[1, 2]), None, "2 values, which is not the shape"),
        (tensor(data=[1, 2, 300]), None, "whole numbers from 0 to 255"),
        (tensor(data="abc"), None, "whole numbers from 0 to 255"),
        (tensor(shape=[1], datatype="BYTES", data=["?"]), None, "not base64"),
        (tensor(shape=[2], datatype="BYTES", data=["aaaa"]), None, "says 2 photos, the data hold 1"),
        (tensor(parameters={"binary_data_size": 7}), None, "binary_data_size is not the length"),
    ],
)
def test_what_is_refused(body: bytes, length: str | None, message: str) -> None:
    with pytest.raises(BadRequestError, match=message):
        parse_request(body, length, 5)


def test_raw_photos_that_end_too_soon() -> None:
    head = json.dumps(
        {"inputs": [{"name": "photos", "shape": [1], "datatype": "BYTES", "parameters": {"binary_data_size": 6}}]}
    ).encode()
    with pytest.raises(BadRequestError, match="end within a photo"):
        parse_request(head + b"\x05\0\0\0ab", str(len(head)), 5)
    found = parse_request(head + b"\x02\0\0\0ab", str(len(head)), 5)
    assert found.photos == [b"ab"]


def test_the_answer_has_what_was_asked_for() -> None:
    asked = parse_request(tensor(), None, 5)
    found = response(asked, "semco", np.array([[0.25, 0.75]], np.float32), ["cat", "dog"])
    assert found["outputs"] == [
        {"name": "probabilities", "datatype": "FP32", "shape": [1, 2], "data": [0.25, 0.75]},
        {"name": "label", "datatype": "BYTES", "shape": [1], "data": ["dog"]},
    ]

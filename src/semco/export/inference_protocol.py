"""The Open Inference Protocol (version 2 of KServe's, Triton's HTTP API): health, metadata, infer.

The one input ``photos`` takes pixels (UINT8, N x H x W x 3) or files of photos (BYTES, N): in JSON as base64, or as raw
bytes after the JSON (Triton's binary tensor data, which its clients send by default). The outputs are ``probabilities``
(FP32, N x K) and ``label`` (BYTES, N).

Shapes: N photos, H and W pixels, K classes.
"""

from __future__ import annotations

import base64
import binascii
import json
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from semco.errors import brief

INPUT = "photos"
OUTPUTS = ("probabilities", "label")
# Length of the JSON at the start of a body that continues with raw bytes.
HEADER_LENGTH = "inference-header-content-length"


class BadRequestError(ValueError):
    """A request that does not follow the protocol; its text is one sentence."""


@dataclass(frozen=True)
class InferRequest:
    """The photos of a request, as pixels (N, H, W, 3) or as files, and what to send back."""

    photos: NDArray[np.uint8] | list[bytes]
    outputs: tuple[str, ...]
    id: str | None


def server_metadata(version: str) -> dict[str, Any]:
    return {"name": "semco", "version": version, "extensions": ["binary_tensor_data"]}


def model_metadata(name: str, num_classes: int) -> dict[str, Any]:
    return {
        "name": name,
        "versions": ["1"],
        "platform": "semco",
        "inputs": [{"name": INPUT, "datatype": "UINT8", "shape": [-1, -1, -1, 3]}],
        "outputs": [
            {"name": "probabilities", "datatype": "FP32", "shape": [-1, num_classes]},
            {"name": "label", "datatype": "BYTES", "shape": [-1]},
        ],
    }


def parse_request(body: bytes, header_length: str | None, most_photos: int) -> InferRequest:
    """Return what the body of an infer request asks for."""
    values, raw = _split(body, header_length)
    inputs = values.get("inputs")
    if not isinstance(inputs, list) or len(inputs) != 1 or not isinstance(inputs[0], dict):
        raise BadRequestError(f"inputs is a list of one tensor, {INPUT!r}.")
    tensor = inputs[0]
    if tensor.get("name") != INPUT:
        raise BadRequestError(f"the input is called {INPUT!r}, not {brief(tensor.get('name'))}.")
    shape = _shape(tensor.get("shape"))
    if not 1 <= shape[0] <= most_photos:
        raise BadRequestError(f"a request holds 1 to {most_photos} photos, not {shape[0]:,}.")
    photos = _photos(tensor, shape, raw)
    request_id = values.get("id")
    return InferRequest(photos, _outputs(values.get("outputs")), request_id if isinstance(request_id, str) else None)


def _split(body: bytes, header_length: str | None) -> tuple[dict[str, Any], bytes]:
    """Return the JSON of a body and the raw bytes after it."""
    length = len(body)
    if header_length is not None:
        is_number = header_length.isascii() and header_length.isdigit()
        if not is_number or int(header_length[:12]) > len(body):
            raise BadRequestError(f"{HEADER_LENGTH} is not the length of a part of the body.")
        length = int(header_length)
    try:
        values = json.loads(body[:length])
    except (ValueError, RecursionError):
        values = None
    if not isinstance(values, dict):
        raise BadRequestError("the body does not begin with a JSON object.")
    return values, body[length:]


def _shape(value: Any) -> list[int]:
    is_list = isinstance(value, list) and 1 <= len(value) <= 4
    if not is_list or not all(type(each) is int and 0 <= each < 1 << 31 for each in value):
        raise BadRequestError(f"the shape {brief(value)} is not [N, H, W, 3] for UINT8 or [N] for BYTES.")
    return list(value)


def _photos(tensor: dict[str, Any], shape: list[int], raw: bytes) -> NDArray[np.uint8] | list[bytes]:
    datatype, parameters = tensor.get("datatype"), tensor.get("parameters")
    size = parameters.get("binary_data_size") if isinstance(parameters, dict) else None
    is_raw = size is not None
    if is_raw and size != len(raw):
        raise BadRequestError(f"binary_data_size is not the length of the {len(raw):,} bytes after the JSON.")
    if datatype == "UINT8" and len(shape) == 4 and shape[3] == 3 and shape[1] and shape[2]:
        return _pixels(raw if is_raw else tensor.get("data"), shape)
    if datatype == "BYTES" and (len(shape) == 1 or shape[1:] == [1]):
        files = _raw_files(raw) if is_raw else _base64_files(tensor.get("data"))
        if len(files) != shape[0]:
            raise BadRequestError(f"the shape says {shape[0]:,} photos, the data hold {len(files):,}.")
        return files
    raise BadRequestError(
        f"{INPUT} is UINT8 of the shape [N, H, W, 3] or BYTES of the shape [N], not {brief(datatype)} of {shape}."
    )


def _pixels(data: Any, shape: list[int]) -> NDArray[np.uint8]:
    try:
        flat = np.frombuffer(data, np.uint8) if isinstance(data, bytes) else np.array(data, np.uint8).ravel()
    except (ValueError, TypeError, OverflowError):
        raise BadRequestError("the data are not whole numbers from 0 to 255.") from None
    if flat.size != np.prod(shape, dtype=object):
        raise BadRequestError(f"the data have {flat.size:,} values, which is not the shape {shape}.")
    return flat.reshape(shape)


def _base64_files(data: Any) -> list[bytes]:
    if not isinstance(data, list) or not all(isinstance(each, str) for each in data):
        raise BadRequestError("the data are a list of photos, each its file in base64.")
    try:
        return [base64.b64decode(each, validate=True) for each in data]
    except (binascii.Error, ValueError):
        raise BadRequestError("the data are not base64.") from None


def _raw_files(raw: bytes) -> list[bytes]:
    """Return the elements of a tensor of BYTES: four bytes of length, the least significant first, then the element."""
    files, position = [], 0
    while position < len(raw):
        end = position + 4 + int.from_bytes(raw[position : position + 4], "little")
        if position + 4 > len(raw) or end > len(raw):
            raise BadRequestError("the bytes after the JSON end within a photo.")
        files.append(raw[position + 4 : end])
        position = end
    return files


def _outputs(value: Any) -> tuple[str, ...]:
    if value is None:
        return OUTPUTS
    asked = [each.get("name") for each in value if isinstance(each, dict)] if isinstance(value, list) else []
    if not asked or len(asked) < len(value) or not all(name in OUTPUTS for name in asked):
        raise BadRequestError(f"the outputs are {' and '.join(OUTPUTS)}, not {brief(value)}.")
    return tuple(name for name in OUTPUTS if name in asked)


def response(request: InferRequest, model: str, probabilities: NDArray[np.float32], names: list[str]) -> dict[str, Any]:
    """Return the answer: the probabilities (N, K) and the most probable classes."""
    labels = [names[i] for i in probabilities.argmax(axis=1)]
    tensors = {
        "probabilities": {
            "datatype": "FP32",
            "shape": list(probabilities.shape),
            "data": probabilities.ravel().tolist(),
        },
        "label": {"datatype": "BYTES", "shape": [len(labels)], "data": labels},
    }
    answer = {"model_name": model, "model_version": "1"} | ({} if request.id is None else {"id": request.id})
    return answer | {"outputs": [{"name": name, **tensors[name]} for name in request.outputs]}

"""Static quantisation to 8-bit integers: a quarter of the size, often faster, a little less accurate.

Convolutions and linear layers are quantised; the preprocessing, which is exact, is not.

Shapes: N photos, H and W pixels.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from semco.evaluation.onnx.trial import PHOTOS
from semco.export.onnx_graph import quiet

# Photos per batch of the calibration.
BATCH = 32
QUANTISED = ("Conv", "Gemm", "MatMul")


def quantise(model: Any, photos: NDArray[np.uint8]) -> Any:
    """Return an ONNX model in int8; the ranges of its values are measured on photos (N, H, W, 3)."""
    import onnx
    from onnxruntime.quantization import CalibrationMethod, QuantFormat, QuantType, quantize_static

    with tempfile.TemporaryDirectory(prefix="semco-") as folder, quiet():
        source, target = Path(folder) / "float.onnx", Path(folder) / "int8.onnx"
        onnx.save(model, source)
        quantize_static(
            source,
            target,
            Photos(photos),
            quant_format=QuantFormat.QDQ,
            op_types_to_quantize=list(QUANTISED),
            nodes_to_exclude=without_weights(model),
            per_channel=True,
            activation_type=QuantType.QUInt8,
            weight_type=QuantType.QInt8,
            calibrate_method=CalibrationMethod.MinMax,
        )
        return onnx.load(target)


def without_weights(model: Any) -> list[str]:
    """Return the matrix products of a graph that have no weights: those of the preprocessing and of attention."""
    weights = {tensor.name for tensor in model.graph.initializer}
    return [n.name for n in model.graph.node if n.op_type == "MatMul" and not weights.intersection(n.input)]


class Photos:
    """What the calibration reads (`onnxruntime.quantization.CalibrationDataReader`): batches of photos."""

    def __init__(self, photos: NDArray[np.uint8]) -> None:
        self._batches: Iterator[NDArray[np.uint8]] = iter(
            photos[start : start + BATCH] for start in range(0, len(photos), BATCH)
        )

    def get_next(self) -> dict[str, NDArray[np.uint8]] | None:
        batch = next(self._batches, None)
        return None if batch is None else {PHOTOS: batch}

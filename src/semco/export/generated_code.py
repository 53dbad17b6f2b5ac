"""A program as Python source that needs only torch, and its tensors.

The source is what `torch.export` has recorded, one operation per line. It needs neither SemCo nor a pickle, and it does
not depend on how a network is built.
"""

from __future__ import annotations

from functools import reduce
from typing import Any

import torch
from torch import Tensor
from torch.fx.graph import CodeGen

HEAD = "def forward(self, photos):"


def generate_code(traced: torch.export.ExportedProgram) -> tuple[str, dict[str, Tensor]]:
    """Return the source of ``program(self, photos)``, and the tensors that it reads as attributes of ``self``.

    It returns the first output of the program: the probabilities of the head that predicts.
    """
    module = traced.module(check_guards=False)
    graph = module.graph
    (output,) = (node for node in graph.nodes if node.op == "output")
    output.args = (output.args[0][0],)
    for node in list(graph.nodes):
        if node.target is torch.ops.aten._assert_tensor_metadata.default:  # on the device of the export
            graph.erase_node(node)
    graph.set_codegen(CodeGen())  # arguments and result are plain tensors
    graph.eliminate_dead_code()
    tensors: dict[str, Tensor] = {}
    for node in graph.nodes:
        if node.op == "get_attr":
            name = f"tensor_{len(tensors)}"
            value: Any = reduce(getattr, node.target.split("."), module)
            tensors[name], node.target = value, name
    source = graph.python_code("self").src.strip()
    assert source.startswith(HEAD), source[:200]
    source = source.removeprefix(HEAD).replace("device(type='cpu')", "device")
    return f"def program(self, photos):\n    device = photos.device{source}", tensors

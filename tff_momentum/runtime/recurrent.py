"""Takes work out of the loops of recurrent layers, before XLA compiles them.

A recurrent layer is a loop over time, and so is its gradient. Four things happen there at every time t
that can be done for all times together, and that neither TensorFlow nor XLA moves:

  x_t W          the product of an input with a weight   ->  x W, before the loop
  d_t Wᵀ         the gradient of that input              ->  d Wᵀ, after the loop
  g + x_tᵀ d_t   the sum that becomes W's gradient       ->  g + xᵀ d, after the loop
  e_t <- 0       a list's item is blanked once it was read, for which XLA copies the whole list: left
                 out where no item is read twice

The numbers stay the same but for the order of summation. For compiled functions only: a list that XLA stacks
has zeros where the loop ended early, a list of TensorFlow's is shorter.
"""

import tensorflow as tf
from tensorflow.core.framework import function_pb2, node_def_pb2

from tff_momentum.runtime.definitions import LOOPS, Function, Loop

_Loops = dict[str, Loop]


def shorten_loops(
  definition: function_pb2.FunctionDef, library: dict[str, function_pb2.FunctionDef]
) -> list[function_pb2.FunctionDef]:
  """Rewrites the loops of a function in place; returns the new functions that it calls."""
  outer = Function(definition)
  nodes = [node for node in definition.node_def if node.op in LOOPS]
  loops = {node.name: Loop.copy(outer, node, library) for node in nodes}
  for loop in loops.values():
    for place in range(len(loop.body.arguments)):
      _keep_items(loop, place, loops)
      _sum_after(loop, place, loops)
      _multiply_after(loop, place, loops)
    for node in list(loop.body.definition.node_def):
      _multiply_before(loop, node)
  return [part.definition for loop in loops.values() for part in (loop.body, loop.condition)]


def _keep_items(loop: Loop, place: int, loops: _Loops) -> None:
  """e_t <- 0 is left out, if e_t is read in this turn alone and e not at all after the loop."""
  body, name = loop.body, loop.body.arguments[place]
  write = body.maker(body.result(place), "TensorListSetItem")
  if write is None or body.source(write.input[0]) != name or loop.outer.readers(loop.output(place)):
    return
  reads = [node for node in body.readers(name) if node is not write]
  index = body.source(write.input[1])
  if (
    body.maker(write.input[2], "ZerosLike")
    and all(r and r.op == "TensorListGetItem" and body.source(r.input[1]) == index for r in reads)
    and body.readers(body.result(place)) == [None]
    and _never_repeats(loop, index, loops)
  ):
    body.set_result(place, name)


def _sum_after(loop: Loop, place: int, loops: _Loops) -> None:
  """g + x_tᵀ d_t becomes two lists, of the x_t and of the d_t, and one product after the loop."""
  body, name = loop.body, loop.body.arguments[place]
  total = body.maker(body.result(place), "AddN", "AddV2")
  if total is None or len(total.input) != 2 or name not in map(body.source, total.input):
    return
  terms = [term for term in total.input if body.source(term) != name]
  product = body.maker(terms[0], "MatMul") if terms else None
  limit = _limit(loop, loops)
  is_sum_alone = body.readers(name) == [total] and body.readers(body.result(place)) == [None]
  if product is None or limit is None or not is_sum_alone or loop.condition.readers(name):
    return
  outer, dtype = loop.outer, tf.as_dtype(product.attr["T"].type)
  stacked = []
  for factor in product.input[:2]:
    empty = outer.add(
      "EmptyTensorList",
      [_unknown(outer), limit],
      "handle",
      element_dtype=dtype,
      shape_type=tf.int32,
    )
    new, items = loop.add_list(empty)
    body.set_result(
      new, body.add("TensorListPushBack", [items, factor], "output_handle", element_dtype=dtype)
    )
    stacked.append(_stack(outer, loop.output(new), dtype))
  body.set_result(place, name)
  left, right = _letters(product, "n", "b", "m")
  summed = _einsum(outer, f"t{left},t{right}->nm", stacked, dtype)
  both = outer.add("AddV2", [loop.output(place), summed], "z", T=dtype)
  outer.replace(loop.output(place), both)


def _multiply_after(loop: Loop, place: int, loops: _Loops) -> None:
  """A list of products d_t Wᵀ becomes a list of the d_t, and one product after the loop."""
  body, outer, name = loop.body, loop.outer, loop.body.arguments[place]
  total = body.maker(body.result(place), "AddN")
  if total is None or len(total.input) != 2 or body.source(total.input[0]) != name:
    return
  write = body.maker(total.input[1], "TensorListSetItem")
  product = body.maker(write.input[2], "MatMul") if write else None
  weight = loop.constant_place(product.input[1]) if product else None
  if write is None or product is None or weight is None or product.attr["transpose_a"].b:
    return
  after = [node for node in outer.readers(loop.output(place)) if node is not None]
  returned = len(after) < len(outer.readers(loop.output(place)))
  if (
    not body.maker(write.input[0], "TensorListReserve")
    or body.readers(name) != [total]
    or body.readers(body.result(place)) != [None]
    or returned
    or [node.op for node in after] != ["TensorListStack"]
    or not _never_repeats(loop, body.source(write.input[1]), loops)
  ):
    return
  dtype = tf.as_dtype(product.attr["T"].type)
  length = outer.add("TensorListLength", [loop.node.input[place]], "length")
  reserved = outer.add(
    "TensorListReserve",
    [_unknown(outer), length],
    "handle",
    element_dtype=dtype,
    shape_type=tf.int32,
  )
  new, items = loop.add_list(reserved)
  changed = [items, write.input[1], product.input[0]]
  body.set_result(new, body.add("TensorListSetItem", changed, "output_handle", element_dtype=dtype))
  body.set_result(place, name)
  left, right = _letters(product, "b", "m", "n")
  factors = [_stack(outer, loop.output(new), dtype), loop.node.input[weight]]
  multiplied = _einsum(outer, f"t{left},{right}->tbn", factors, dtype)
  old = f"{after[0].name}:tensor:0"
  outer.replace(old, outer.add("AddV2", [old, multiplied], "z", T=dtype))


def _multiply_before(loop: Loop, node: node_def_pb2.NodeDef) -> None:
  """The product x_t W becomes an item of the list of x W."""
  if node.op != "MatMul" or node.attr["transpose_a"].b:
    return
  body, outer = loop.body, loop.outer
  item, weight = body.maker(node.input[0], "TensorListGetItem"), loop.constant_place(node.input[1])
  place = loop.constant_place(item.input[0]) if item else None
  if item is None or weight is None or place is None:
    return
  unstack = outer.maker(loop.node.input[place], "TensorListFromTensor")
  if unstack is None:
    return
  dtype = tf.as_dtype(node.attr["T"].type)
  left, right = _letters(node, "b", "n", "m")
  product = _einsum(
    outer, f"t{left},{right}->tbm", [unstack.input[0], loop.node.input[weight]], dtype
  )
  listed = outer.add(
    "TensorListFromTensor",
    [product, _unknown(outer)],
    "output_handle",
    element_dtype=dtype,
    shape_type=tf.int32,
  )
  _, items = loop.add_list(listed)
  taken = body.add(
    "TensorListGetItem", [items, item.input[1], _unknown(body)], "item", element_dtype=dtype
  )
  body.replace(f"{node.name}:product:0", taken)


def _popped(loop: Loop, tensor: str, loops: _Loops) -> tuple[Loop, int] | None:
  """For a tensor that the body takes from the end of a list: the loop that filled it, and its place."""
  pop = loop.body.maker(tensor, "TensorListPopBack")
  place = loop.place(pop.input[0]) if pop else None
  if place is None:
    return None
  filled = loop.outer.source(loop.node.input[place]).split(":")
  first = loops.get(filled[0])
  return None if first is None else (first, int(filled[-1]))


def _limit(loop: Loop, loops: _Loops) -> str | None:
  """How many turns the loop can take: no more than a list has room for from which each takes an item."""
  for node in loop.body.definition.node_def:
    found = node.op == "TensorListPopBack" and _popped(loop, node.name, loops)
    if found:
      first, place = found
      made = loop.outer.maker(first.node.input[place], "EmptyTensorList")
      if made is not None:
        return made.input[1]
  return None


def _never_repeats(loop: Loop, index: str, loops: _Loops) -> bool:
  """Whether an index is taken from a list of a counter's values."""
  found = _popped(loop, index, loops)
  if found is None:
    return False
  first, place = found
  body = first.body
  push = body.maker(body.result(place), "TensorListPushBack")
  if push is None or first.place(push.input[0]) != place:
    return False
  if not first.outer.maker(first.node.input[place], "EmptyTensorList"):
    return False
  counter = first.place(push.input[1])
  rise = body.maker(body.result(counter), "AddV2") if counter is not None else None
  if rise is None or first.place(rise.input[0]) != counter:
    return False
  by = body.maker(rise.input[1], "Const")
  return by is not None and bool(tf.make_ndarray(by.attr["value"].tensor) > 0)


def _letters(product: node_def_pb2.NodeDef, rows: str, inner: str, columns: str) -> tuple[str, str]:
  """The factors' dimensions as `Einsum` writes them."""
  left, right = rows + inner, inner + columns
  return (
    left[::-1] if product.attr["transpose_a"].b else left,
    right[::-1] if product.attr["transpose_b"].b else right,
  )


def _einsum(function: Function, equation: str, factors: list[str], dtype: tf.DType) -> str:
  return function.add("Einsum", factors, "output", equation=equation, N=2, T=dtype)


def _stack(function: Function, items: str, dtype: tf.DType) -> str:
  inputs = [items, _unknown(function)]
  return function.add("TensorListStack", inputs, "tensor", element_dtype=dtype, num_elements=-1)


def _unknown(function: Function) -> str:
  """A shape of which nothing is known."""
  value = tf.make_tensor_proto(-1, tf.int32)
  return function.add("Const", [], "output", dtype=tf.int32, value=value)

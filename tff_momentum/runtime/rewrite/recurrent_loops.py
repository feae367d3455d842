"""Moves work out of the loops of recurrent layers before XLA compiles them.

A recurrent layer is a loop over time, and so is its gradient. Five things happen there at every time step t
that can be done for all time steps together, and that neither TensorFlow nor XLA moves:

  x_t W          the product of an input with a weight   ->  x W, before the loop
  d_t Wᵀ         the gradient of that input              ->  d Wᵀ, after the loop
  g + x_tᵀ d_t   the sum that becomes W's gradient       ->  g + xᵀ d, after the loop
  g + 1ᵀ d_t     the sum that becomes a bias's gradient  ->  g + 1ᵀ d, after the loop
  e_t <- 0       a list item is cleared after it is read, for which XLA copies the whole list: removed
                 where no item is read twice

One product must stay in the loop: d_t Uᵀ, the gradient of the state. U is transposed before the loop, because
the matrix multiplication kernel copies a transposed matrix slowly, in every step. And d_t, a concatenation of
the gates' gradients, stays in parts, because XLA gathers the elements of a fused concatenation one by one.

Results change only by the order of summation. This is valid for compiled functions only: if a loop ends
early, a list stacked by XLA is padded with zeros, while one stacked by TensorFlow is shorter.
"""

from collections.abc import Mapping

import tensorflow as tf
from tensorflow.core.framework import function_pb2, node_def_pb2

from tff_momentum.hot_functions import full_batch_argument
from tff_momentum.runtime.rewrite import loop_outputs
from tff_momentum.runtime.rewrite.function_defs import LOOPS, Function, Loop
from tff_momentum.runtime.rewrite.xla_calls import is_compiled

_Loops = dict[str, Loop]


def move_work_out_of_loops(graph_def: tf.compat.v1.GraphDef) -> None:
  """Rewrites the loops of the hot functions that XLA compiles, in place."""
  library = {function.signature.name: function for function in graph_def.library.function}
  for function in list(library.values()):
    if full_batch_argument(function) is not None and is_compiled(function):
      graph_def.library.function.extend(_rewrite_loops(function, library))


def _rewrite_loops(
  definition: function_pb2.FunctionDef, library: Mapping[str, function_pb2.FunctionDef]
) -> list[function_pb2.FunctionDef]:
  """Rewrites the loops of a function in place; returns the new functions that it calls."""
  outer = Function(definition)
  nodes = [node for node in definition.node_def if node.op in LOOPS]
  loops = {node.name: Loop.copy(outer, node, library) for node in nodes}
  for loop in loops.values():
    places, collected = range(len(loop.body.arguments)), _collector(loop, loops)
    for place in places:
      _keep_items(loop, place, loops)
      collected = _multiply_after(loop, place, loops) or collected
    for place in places:
      _sum_after(loop, place, collected)
    loop.body.prune()
    for node in list(loop.body.definition.node_def):
      _multiply_before(loop, node)
      _multiply_by_parts(loop, node, loops)
  return [part.definition for loop in loops.values() for part in (loop.body, loop.condition)]


def _keep_items(loop: Loop, place: int, loops: _Loops) -> None:
  """Removes e_t <- 0 if e_t is read in this iteration only, and e is not read after the loop."""
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


def _sum_after(loop: Loop, place: int, collected: loop_outputs.LoopOutputs | None) -> None:
  """Replaces the sum g + x_tᵀ d_t by lists of x_t and d_t and one product after the loop; also g + 1ᵀ d_t."""
  body, outer, name = loop.body, loop.outer, loop.body.arguments[place]
  total = body.maker(body.result(place), "AddN", "AddV2")
  if total is None or len(total.input) != 2 or name not in map(body.source, total.input):
    return
  terms = [term for term in total.input if body.source(term) != name]
  is_sum_alone = body.readers(name) == [total] and body.readers(body.result(place)) == [None]
  if collected is None or not is_sum_alone or loop.condition.readers(name):
    return
  if not terms or not _is_summable(body, terms[0]):
    return
  summed = [loop.output(place), _sum_of(loop, terms[0], collected)]
  body.set_result(place, name)
  both = outer.add("AddV2", summed, "z", T=tf.as_dtype(total.attr["T"].type))
  outer.replace(loop.output(place), both)


def _is_summable(body: Function, tensor: str) -> bool:
  """Whether `_sum_of` supports a tensor: a product, a matrix's column sums, or a stack of such tensors."""
  node = body.maker(tensor, "MatMul", "BiasAddGrad", "Pack")
  if node is None or node.op == "MatMul":
    return node is not None
  if node.op == "Pack":
    return all(_is_summable(body, part) for part in node.input)
  readers = body.readers(body.source(node.input[0]))
  is_matrix = any(reader is not None and reader.op == "MatMul" for reader in readers)
  return is_matrix and node.attr["data_format"].s == b"NHWC"


def _sum_of(loop: Loop, tensor: str, collected: loop_outputs.LoopOutputs) -> str:
  """Returns the sum of a body's tensor over all iterations."""
  outer, node = loop.outer, loop.body.maker(tensor, "MatMul", "BiasAddGrad", "Pack")
  assert node is not None
  dtype = tf.as_dtype(node.attr["T"].type)
  if node.op == "Pack":
    parts = [_sum_of(loop, part, collected) for part in node.input]
    return outer.add("Pack", parts, "output", N=len(parts), T=dtype, axis=node.attr["axis"].i)
  if node.op == "BiasAddGrad":
    parts = [_column_sums(outer, part, dtype) for part in collected.parts(node.input[0], dtype)]
    return loop_outputs.join(outer, parts, 0, dtype)
  left, right = _letters(node, "n", "b", "m")
  first = collected.stacked(node.input[0], dtype)
  if node.attr["transpose_b"].b:
    seconds = [collected.stacked(node.input[1], dtype)]
  else:
    seconds = collected.parts(node.input[1], dtype)
  products = [_einsum(outer, f"t{left},t{right}->nm", [first, s], dtype) for s in seconds]
  return loop_outputs.join(outer, products, 1, dtype)


def _column_sums(function: Function, stacked: str, dtype: tf.DType) -> str:
  """Returns the column sums of stacked matrices as a product with ones, because XLA's own sums are slower."""
  corner = [function.add_constant([0, 0, 0]), function.add_constant([-1, -1, 1])]
  column = function.add("Slice", [stacked, *corner], "output", T=dtype, Index=tf.int32)
  ones = function.add("OnesLike", [column], "y", T=dtype)
  row = _einsum(function, "tbo,tbn->on", [ones, stacked], dtype)
  flat = [row, function.add_constant([-1])]
  return function.add("Reshape", flat, "output", T=dtype, Tshape=tf.int32)


def _multiply_after(loop: Loop, place: int, loops: _Loops) -> loop_outputs.LoopOutputs | None:
  """Replaces a list of products d_t Wᵀ by a list of d_t and one product after the loop.

  Returns the collector of d_t, which can collect more; None if there is no such list.
  """
  body, outer, name = loop.body, loop.outer, loop.body.arguments[place]
  total = body.maker(body.result(place), "AddN")
  if total is None or len(total.input) != 2 or body.source(total.input[0]) != name:
    return None
  write = body.maker(total.input[1], "TensorListSetItem")
  product = body.maker(write.input[2], "MatMul") if write else None
  weight = loop.constant_place(product.input[1]) if product else None
  if write is None or product is None or weight is None or product.attr["transpose_a"].b:
    return None
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
    return None
  dtype = tf.as_dtype(product.attr["T"].type)
  length = outer.add("TensorListLength", [loop.node.input[place]], "length")
  collected = loop_outputs.by_index(loop, write.input[1], length)
  left, right = _letters(product, "b", "m", "n")
  factors = [collected.stacked(product.input[0], dtype), loop.node.input[weight]]
  body.set_result(place, name)
  multiplied = _einsum(outer, f"t{left},{right}->tbn", factors, dtype)
  old = f"{after[0].name}:tensor:0"
  outer.replace(old, outer.add("AddV2", [old, multiplied], "z", T=dtype))
  return collected


def _multiply_before(loop: Loop, node: node_def_pb2.NodeDef) -> None:
  """Replaces the product x_t W by an item of the list x W."""
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
    [product, loop_outputs.unknown(outer)],
    "output_handle",
    **loop_outputs.list_of(dtype),
  )
  _, items = loop.add(listed)
  taken = body.add(
    "TensorListGetItem",
    [items, item.input[1], loop_outputs.unknown(body)],
    "item",
    element_dtype=dtype,
  )
  body.replace(f"{node.name}:product:0", taken)


def _multiply_by_parts(loop: Loop, node: node_def_pb2.NodeDef, loops: _Loops) -> None:
  """Replaces d_t Uᵀ by the sum of the products of d_t's parts with parts of Uᵀ cut before the loop."""
  if node.op != "MatMul" or node.attr["transpose_a"].b or not node.attr["transpose_b"].b:
    return
  body, outer, place = loop.body, loop.outer, loop.constant_place(node.input[1])
  if place is None:
    return
  weight, dtype = loop.node.input[place], tf.as_dtype(node.attr["T"].type)
  turned = [weight, outer.add_constant([1, 0])]
  lefts, rights = [node.input[0]], [outer.add("Transpose", turned, "y", T=dtype, Tperm=tf.int32)]
  concat, sizes = body.maker(node.input[0], "ConcatV2"), _sizes_of_gates(loop, weight, loops)
  if concat is not None and sizes is not None and len(concat.input) == len(sizes) + 1:
    lefts = list(concat.input[:-1])
    cut = [rights[0], outer.add_constant(sizes), outer.add_constant(0)]
    first = outer.add("SplitV", cut, "output", num_split=len(sizes), T=dtype, Tlen=tf.int32)
    rights = [first.removesuffix("0") + str(i) for i in range(len(sizes))]
  products = []
  for left, right in zip(lefts, rights, strict=True):
    _, inside = loop.add(right, dtype)
    products.append(body.add("MatMul", [left, inside], "product", T=dtype))
  total = body.add("AddN", products, "sum", N=len(products), T=dtype)
  body.replace(f"{node.name}:product:0", total)


def _sizes_of_gates(loop: Loop, weight: str, loops: _Loops) -> list[int] | None:
  """Returns the sizes into which the forward loop splits its product with a weight.

  If only a bias comes in between, the product's gradient is a concatenation of parts of these sizes.
  """
  found = _forward_loop(loop, loops)
  if found is None:
    return None
  before, body = found[0], found[0].body
  for node in body.definition.node_def:
    place = before.constant_place(node.input[1]) if node.op == "MatMul" else None
    if place is not None and weight == before.output(place):
      product = f"{node.name}:product:0"
      biased = body.only_reader(product, "BiasAdd")
      split = body.only_reader(f"{biased.name}:output:0" if biased else product, "SplitV")
      return None if split is None else body.constant(split.input[1])
  return None


def _popped(loop: Loop, tensor: str, loops: _Loops) -> tuple[Loop, int] | None:
  """Returns the loop that filled the list from which the body pops a tensor, and the list's position."""
  pop = loop.body.maker(tensor, "TensorListPopBack")
  place = loop.place(pop.input[0]) if pop else None
  if place is None:
    return None
  filled = loop.outer.source(loop.node.input[place]).split(":")
  first = loops.get(filled[0])
  return None if first is None else (first, int(filled[-1]))


def _forward_loop(loop: Loop, loops: _Loops) -> tuple[Loop, str] | None:
  """Returns the forward loop of a gradient's loop, and its maximum number of iterations."""
  for node in loop.body.definition.node_def:
    found = node.op == "TensorListPopBack" and _popped(loop, node.name, loops)
    if found:
      first, place = found
      made = loop.outer.maker(first.node.input[place], "EmptyTensorList")
      if made is not None:
        return first, made.input[1]
  return None


def _collector(loop: Loop, loops: _Loops) -> loop_outputs.LoopOutputs | None:
  """Returns a collector for a loop whose maximum number of iterations is known; else None."""
  found = _forward_loop(loop, loops)
  return None if found is None else loop_outputs.in_order(loop, found[1])


def _never_repeats(loop: Loop, index: str, loops: _Loops) -> bool:
  """Whether an index is different in each iteration: it comes from a list of a counter's values."""
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
  by = body.constant(rise.input[1])
  return by is not None and by > 0


def _letters(product: node_def_pb2.NodeDef, rows: str, inner: str, columns: str) -> tuple[str, str]:
  """Returns the dimensions of a product's factors in the notation of `Einsum`."""
  left, right = rows + inner, inner + columns
  return (
    left[::-1] if product.attr["transpose_a"].b else left,
    right[::-1] if product.attr["transpose_b"].b else right,
  )


def _einsum(function: Function, equation: str, factors: list[str], dtype: tf.DType) -> str:
  return function.add("Einsum", factors, "output", equation=equation, N=2, T=dtype)

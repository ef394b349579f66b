"""Four numbers at a time: what vector instructions do at once, said so that they are used.

Plain loops over four numbers are not made into vector instructions, and where numbers are written one by one and read together
soon after, reading waits. As plain Python these are slices.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kleene.common.arrays import Array
from kleene.engine.kernels import COMPILED

FOUR = np.uint64(4)
MOST = np.iinfo(np.int64).max
"""Where sums end: whatever reaches it would have passed it."""


def add_four(numbers: Array, target: Any, source: Any, masks: Array, at: Any, noted: Array, note: Any) -> None:
    """Four numbers become what the first four masks leave of them and the next four let pass of four others, at most MOST; they
    are also noted elsewhere.
    """
    kept = numbers[target : target + FOUR] & masks[at : at + FOUR]
    added = numbers[source : source + FOUR] & masks[at + FOUR : at + FOUR + FOUR]
    numbers[target : target + FOUR] = noted[note : note + FOUR] = kept + np.minimum(added, MOST - kept)


def copy_four(into: Array, target: Any, numbers: Array, source: Any) -> None:
    """Copies four numbers from one array to another."""
    into[target : target + FOUR] = numbers[source : source + FOUR]


if COMPILED:
    from llvmlite import ir
    from numba import types
    from numba.extending import intrinsic

    _vector = ir.VectorType(ir.IntType(64), 4)

    def _places(context: Any, builder: Any, array_type: Any, array: Any, place: Any, four: int = 0) -> Any:
        """The address of four numbers of an array."""
        data = context.make_array(array_type)(context, builder, array).data
        first = builder.add(place, ir.Constant(place.type, 4 * four))
        return builder.bitcast(builder.gep(data, [first]), _vector.as_pointer())

    def _all(number: int) -> Any:
        return ir.Constant(_vector, [number] * 4)

    @intrinsic
    def add_four(typing: Any, numbers: Any, target: Any, source: Any, masks: Any, at: Any, noted: Any, note: Any) -> Any:  # noqa: ARG001
        def generate(context: Any, builder: Any, signature: Any, given: Any) -> Any:
            own, other = signature.args[0], signature.args[3]
            address = _places(context, builder, own, given[0], given[1])
            pieces = (
                (address, _places(context, builder, other, given[3], given[4])),
                (_places(context, builder, own, given[0], given[2]), _places(context, builder, other, given[3], given[4], 1)),
            )
            kept, added = (builder.and_(*(builder.load(place, align=8) for place in piece)) for piece in pieces)
            total = builder.add(kept, added)
            total = builder.select(builder.icmp_signed("<", total, _all(0)), _all(MOST), total)
            builder.store(total, address, align=8)
            builder.store(total, _places(context, builder, signature.args[5], given[5], given[6]), align=8)
            return context.get_dummy_value()

        return types.void(numbers, target, source, masks, at, noted, note), generate

    @intrinsic
    def copy_four(typing: Any, into: Any, target: Any, numbers: Any, source: Any) -> Any:  # noqa: ARG001
        def generate(context: Any, builder: Any, signature: Any, given: Any) -> Any:
            read = builder.load(_places(context, builder, signature.args[2], given[2], given[3]), align=8)
            builder.store(read, _places(context, builder, signature.args[0], given[0], given[1]), align=8)
            return context.get_dummy_value()

        return types.void(into, target, numbers, source), generate

"""Machine code of generated filters, straight from their source: a tenth of what numba takes for it.

A filter is one function over integers, floats and arrays of these, generated from checked trees: assignments, `if`, `for`,
`while`, comparisons, arithmetic. A variable is a truth value, an integer or a float, whichever holds all that it is ever given,
and means what it means to numba: integers wrap at 64 bits, a division gives a float, a remainder has the sign of its divisor,
NaN equals nothing. `and` and `or` stop as soon as they know.

LLVM optimizes the code as it does numba's; so calls of filters cost what they did. Cost: 5 to 20 ms a filter.
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Sequence
from functools import cached_property
from itertools import count
from typing import Any

from llvmlite import ir
from numba.core import types
from numba.core.compiler_lock import global_compiler_lock
from numba.core.registry import cpu_target

from kleene.engine.kernels.compilers import FilterLibrary

TRUTH, INTEGER, FLOAT = range(3)
"""Kinds of values: each holds what those before it hold."""

I1, I8, I64, DOUBLE = ir.IntType(1), ir.IntType(8), ir.IntType(64), ir.DoubleType()
KINDS = (I1, I64, DOUBLE)
OPERATORS = {ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">="}
BITWISE = {ast.BitAnd: "and_", ast.BitOr: "or_", ast.BitXor: "xor"}
INTEGERS = {ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.RShift: "ashr", **BITWISE}
FLOATS = {ast.Add: "fadd", ast.Sub: "fsub", ast.Mult: "fmul", ast.Div: "fdiv"}
LIMIT = 2**63

_protocol: Any = types.WrapperAddressProtocol
_number = count()

Typed = tuple[Any, int]
"""A value of LLVM and its kind."""


class CompiledFilter(_protocol):  # type: ignore[misc]
    """A filter in the form that kernels take: by its address."""

    def __init__(self, source: str, signature: Any, plain: Any) -> None:
        self._signature = signature
        self.plain = plain
        """The function that the source defines."""
        with global_compiler_lock:
            self._library, self._address = _machine_code(source, signature)

    def __call__(self, *given: Any) -> Any:
        return self.plain(*given)

    @cached_property
    def _numba_type_(self) -> Any:
        return types.FunctionType(self._signature)

    def __wrapper_address__(self) -> Any:
        return self._address

    def signature(self) -> Any:
        """What numba asks for."""
        return self._signature


def _machine_code(source: str, signature: Any) -> tuple[Any, Any]:
    """The library that holds a function's code, and its address."""
    (definition,) = ast.parse(source).body
    assert isinstance(definition, ast.FunctionDef)
    context: Any = cpu_target.target_context
    # Of the same contents in two libraries one would be found in place of the other.
    name = f"{definition.name}_{hashlib.blake2b(source.encode(), digest_size=8).hexdigest()}_{next(_number)}"
    library = FilterLibrary(context.codegen(), name)
    module = library.create_ir_module(name)
    given = [context.get_value_type(item) for item in signature.args]
    _Writer(ir.Function(module, ir.FunctionType(I64, given), name), signature.args, definition)
    library.add_ir_module(module)
    library.finalize()
    return library, library.get_pointer_to_function(name)


class _Writer:
    """Writes a function, statement by statement; every variable has a place in memory, which LLVM makes registers of."""

    def __init__(self, function: Any, given: Sequence[Any], definition: ast.FunctionDef) -> None:
        self._builder = builder = ir.IRBuilder(function.append_basic_block("entry"))
        self._function = function
        self._arrays: dict[str, tuple[Any, Any]] = {}
        self._sizes: dict[str, tuple[Any, ...]] = {}
        names = [item.arg for item in definition.args.args]
        self._kinds = dict.fromkeys((name for name, kind in zip(names, given, strict=True) if kind == types.int64), INTEGER)
        for name, kind, value in zip(names, given, function.args, strict=True):
            if isinstance(kind, types.Array):
                # As numba lays out arrays: memory, parent, size, width, data, shape, strides.
                self._sizes[name] = tuple(builder.extract_value(value, (5, axis)) for axis in range(kind.ndim))
                value = builder.extract_value(value, 4)
            if kind != types.int64:
                self._arrays[name] = value, kind.dtype
        while self._widened(definition.body):
            pass
        self._places = {name: builder.alloca(KINDS[kind], name=name) for name, kind in self._kinds.items()}
        for name, kind, value in zip(names, given, function.args, strict=True):
            if kind == types.int64:
                builder.store(value, self._places[name])
        self._again: list[Any] = []
        self._body(definition.body)
        if not builder.block.is_terminated:
            builder.unreachable()

    # --- kinds ----------------------------------------------------------------------------------------------------------

    def _widened(self, body: Sequence[ast.stmt]) -> bool:
        """Whether a variable needs a wider kind than was known."""
        before = dict(self._kinds)
        for statement in (item for outer in body for item in ast.walk(outer)):
            if isinstance(statement, ast.For):
                self._widen(statement.target, INTEGER)
            elif isinstance(statement, ast.Assign):
                self._widen(statement.targets[0], self._kind(statement.value))
            elif isinstance(statement, ast.AugAssign):
                self._widen(statement.target, self._kind(_updated(statement)))
        return self._kinds != before

    def _widen(self, target: ast.expr, kind: int) -> None:
        if isinstance(target, ast.Name):
            self._kinds[target.id] = max(kind, self._kinds.get(target.id, TRUTH))

    def _kind(self, node: ast.expr) -> int:
        if isinstance(node, ast.Constant):
            return {bool: TRUTH, int: INTEGER, float: FLOAT}[type(node.value)]
        if isinstance(node, ast.Name):
            return self._kinds.get(node.id, TRUTH)
        if isinstance(node, ast.Subscript):
            return FLOAT if self._array(node)[1] == types.float64 else INTEGER
        if isinstance(node, ast.IfExp):
            return max(self._kind(node.body), self._kind(node.orelse))
        if isinstance(node, ast.BinOp):
            kind = max(self._kind(node.left), self._kind(node.right))
            if isinstance(node.op, ast.Div):
                return FLOAT
            return kind if type(node.op) in BITWISE else max(kind, INTEGER)
        if isinstance(node, ast.UnaryOp):
            return TRUTH if isinstance(node.op, ast.Not) else max(self._kind(node.operand), INTEGER)
        if isinstance(node, ast.Call):
            called = ast.unparse(node.func)
            if called in ("abs", "min"):
                return max(INTEGER, *map(self._kind, node.args))
            return INTEGER if called == "np.int64" or _bits_of(node) == FLOAT else FLOAT
        return TRUTH

    # --- statements -----------------------------------------------------------------------------------------------------

    def _body(self, body: Sequence[ast.stmt]) -> None:
        for statement in body:
            if not self._builder.block.is_terminated:
                getattr(self, f"_{type(statement).__name__.lower()}")(statement)

    def _assign(self, node: ast.Assign) -> None:
        self._store(node.targets[0], node.value)

    def _augassign(self, node: ast.AugAssign) -> None:
        self._store(node.target, _updated(node))

    def _store(self, target: ast.expr, node: ast.expr) -> None:
        if isinstance(target, ast.Name):
            self._builder.store(self._as(self._kinds[target.id], node), self._places[target.id])
            return
        assert isinstance(target, ast.Subscript)
        value, kind = self._as(INTEGER, node), self._array(target)[1]
        self._builder.store(self._builder.trunc(value, ir.IntType(kind.bitwidth)), self._address(target))

    def _return(self, node: ast.Return) -> None:
        assert node.value is not None
        self._builder.ret(self._as(INTEGER, node.value))

    def _continue(self, _: ast.Continue) -> None:
        self._builder.branch(self._again[-1])

    def _if(self, node: ast.If) -> None:
        inside, after = self._blocks(2)
        self._branch(node.test, inside, after)
        self._builder.position_at_end(inside)
        self._body(node.body)
        self._go_on(after)

    def _while(self, node: ast.While) -> None:
        test, inside, after = self._blocks(3)
        self._builder.branch(test)
        self._builder.position_at_end(test)
        self._branch(node.test, inside, after)
        self._loop(node.body, inside, test)
        self._builder.position_at_end(after)

    def _for(self, node: ast.For) -> None:
        """`for NAME in range(END)`, or `in range(BEGIN, END)`."""
        assert isinstance(node.iter, ast.Call)
        assert isinstance(node.target, ast.Name)
        builder, (test, inside, step, after) = self._builder, self._blocks(4)
        *begin, end = (self._as(INTEGER, item) for item in node.iter.args)
        before = builder.block
        builder.branch(test)
        builder.position_at_end(test)
        at = builder.phi(I64)
        at.add_incoming(begin[0] if begin else ir.Constant(I64, 0), before)
        builder.cbranch(builder.icmp_signed("<", at, end), inside, after)
        builder.position_at_end(inside)
        builder.store(at, self._places[node.target.id])
        self._loop(node.body, inside, step)
        builder.position_at_end(step)
        at.add_incoming(builder.add(at, ir.Constant(I64, 1), flags=("nsw",)), step)
        builder.branch(test)
        builder.position_at_end(after)

    def _loop(self, body: Sequence[ast.stmt], inside: Any, again: Any) -> None:
        self._builder.position_at_end(inside)
        self._again.append(again)
        self._body(body)
        self._again.pop()
        if not self._builder.block.is_terminated:
            self._builder.branch(again)

    def _blocks(self, number: int) -> list[Any]:
        return [self._function.append_basic_block() for _ in range(number)]

    def _go_on(self, block: Any) -> None:
        if not self._builder.block.is_terminated:
            self._builder.branch(block)
        self._builder.position_at_end(block)

    def _branch(self, node: ast.expr, true: Any, false: Any) -> None:
        """Goes on at one of two blocks."""
        if isinstance(node, ast.BoolOp):
            for operand in node.values[:-1]:
                (other,) = self._blocks(1)
                self._branch(operand, *((other, false) if isinstance(node.op, ast.And) else (true, other)))
                self._builder.position_at_end(other)
            self._branch(node.values[-1], true, false)
        else:
            self._builder.cbranch(self._truth(node), true, false)

    # --- values ---------------------------------------------------------------------------------------------------------

    def _truth(self, node: ast.expr) -> Any:
        value, kind = self._value(node)
        if kind == TRUTH:
            return value
        zero = ir.Constant(KINDS[kind], 0)
        return (
            self._builder.fcmp_unordered("!=", value, zero) if kind == FLOAT else self._builder.icmp_signed("!=", value, zero)
        )

    def _as(self, kind: int, node: ast.expr) -> Any:
        """A value as one of a kind that holds it."""
        return self._wider(self._value(node), kind)

    def _wider(self, typed: Typed, wanted: int) -> Any:
        value, kind = typed
        if kind == wanted:
            return value
        if kind == TRUTH:
            value = self._builder.zext(value, I64)
        return value if wanted == INTEGER else self._builder.sitofp(value, DOUBLE)

    def _value(self, node: ast.expr) -> Typed:
        written: Typed = getattr(self, f"_{type(node).__name__.lower()}")(node)
        return written

    def _constant(self, node: ast.Constant) -> Typed:
        kind = self._kind(node)
        return ir.Constant(KINDS[kind], node.value), kind

    def _name(self, node: ast.Name) -> Typed:
        return self._builder.load(self._places[node.id]), self._kinds[node.id]

    def _array(self, node: ast.Subscript) -> tuple[Any, Any]:
        assert isinstance(node.value, ast.Name)
        return self._arrays[node.value.id]

    def _address(self, node: ast.Subscript) -> Any:
        assert isinstance(node.value, ast.Name)
        data, sizes = self._array(node)[0], self._sizes.get(node.value.id, ())
        axes = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        place = self._as(INTEGER, axes[0])
        if isinstance(axes[0], ast.UnaryOp):  # rows that are counted from the end
            place = self._builder.add(place, sizes[0])
        if len(axes) == 2:
            place = self._builder.add(self._builder.mul(place, sizes[1]), self._as(INTEGER, axes[1]))
        return self._builder.gep(data, [place])

    def _subscript(self, node: ast.Subscript) -> Typed:
        value, dtype = self._builder.load(self._address(node)), self._array(node)[1]
        if dtype == types.float64:
            return value, FLOAT
        if dtype.bitwidth < 64:
            value = (self._builder.sext if dtype.signed else self._builder.zext)(value, I64)
        return value, INTEGER

    def _ifexp(self, node: ast.IfExp) -> Typed:
        """Written as branches: LLVM then writes a loop twice if part of the condition is the same all along."""
        kind, (true, false, after) = self._kind(node), self._blocks(3)
        self._branch(node.test, true, false)
        given = []
        for block, operand in ((true, node.body), (false, node.orelse)):
            self._builder.position_at_end(block)
            given.append((self._as(kind, operand), self._builder.block))
            self._builder.branch(after)
        self._builder.position_at_end(after)
        chosen = self._builder.phi(KINDS[kind])
        for value, block in given:
            chosen.add_incoming(value, block)
        return chosen, kind

    def _unaryop(self, node: ast.UnaryOp) -> Typed:
        if isinstance(node.op, ast.Not):
            return self._builder.not_(self._truth(node.operand)), TRUTH
        kind = self._kind(node)
        value = self._as(kind, node.operand)
        if isinstance(node.op, ast.Invert):
            return self._builder.not_(value), kind
        return (self._builder.fneg(value) if kind == FLOAT else self._builder.neg(value)), kind

    def _binop(self, node: ast.BinOp) -> Typed:
        kind, operator = self._kind(node), type(node.op)
        operands = self._as(kind, node.left), self._as(kind, node.right)
        if operator is ast.Mod:
            # Of floats only absolute values are divided.
            return (self._builder.frem(*operands) if kind == FLOAT else self._remainder(*operands)), kind
        return getattr(self._builder, (FLOATS if kind == FLOAT else INTEGERS)[operator])(*operands), kind

    def _remainder(self, dividend: Any, divisor: Any) -> Any:
        zero = ir.Constant(I64, 0)
        remainder = self._builder.srem(dividend, divisor)
        turned = self._builder.icmp_signed("<", self._builder.xor(remainder, divisor), zero)
        turned = self._builder.and_(turned, self._builder.icmp_signed("!=", remainder, zero))
        return self._builder.select(turned, self._builder.add(remainder, divisor), remainder)

    def _compare(self, node: ast.Compare) -> Typed:
        left, right, sign = node.left, node.comparators[0], OPERATORS[type(node.ops[0])]
        kind = max(self._kind(left), self._kind(right), INTEGER)
        if kind == INTEGER:
            beyond = [_beyond(left), -_beyond(right)]
            if any(beyond):  # a number that no integer reaches
                held = {"==": False, "!=": True}.get(sign, ("<" in sign) == (sum(beyond) < 0))
                return ir.Constant(I1, held), TRUTH
        operands = self._as(kind, left), self._as(kind, right)
        if kind == INTEGER:
            return self._builder.icmp_signed(sign, *operands), TRUTH
        compare = self._builder.fcmp_unordered if sign == "!=" else self._builder.fcmp_ordered
        return compare(sign, *operands), TRUTH

    def _call(self, node: ast.Call) -> Typed:
        kind, seen = self._kind(node), _bits_of(node)
        if seen is not None:
            assert isinstance(node.func, ast.Attribute)
            return self._builder.bitcast(self._as(seen, node.func.value), KINDS[kind]), kind
        name, (value, *others) = ast.unparse(node.func), [self._as(kind, item) for item in node.args]
        if name in ("np.int64", "np.float64"):
            return value, kind
        if name == "min":
            assert kind == INTEGER
            return self._builder.select(self._builder.icmp_signed("<", value, others[0]), value, others[0]), kind
        if name == "abs" and kind == INTEGER:
            negative = self._builder.icmp_signed("<", value, ir.Constant(I64, 0))
            return self._builder.select(negative, self._builder.neg(value), value), kind
        intrinsic = {"abs": "llvm.fabs", "np.sqrt": "llvm.sqrt"}[name]
        return self._builder.call(self._function.module.declare_intrinsic(intrinsic, [DOUBLE]), [value]), FLOAT


def _bits_of(node: ast.Call) -> int | None:
    """The kind of V in `np.int64(V).view(np.float64)`, and the other way round; None for other calls."""
    if not isinstance(node.func, ast.Attribute) or node.func.attr != "view":
        return None
    assert isinstance(node.func.value, ast.Call)
    return {"np.int64": INTEGER, "np.float64": FLOAT}[ast.unparse(node.func.value.func)]


def _updated(node: ast.AugAssign) -> ast.BinOp:
    """What `a += b` gives a."""
    return ast.BinOp(node.target, node.op, node.value)


def _beyond(node: ast.expr) -> int:
    """1 or -1 for a constant that is above or below all integers, else 0."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -int(isinstance(node.operand, ast.Constant) and int(ast.unparse(node.operand)) > LIMIT)
    return int(isinstance(node, ast.Constant) and type(node.value) is int and node.value >= LIMIT)

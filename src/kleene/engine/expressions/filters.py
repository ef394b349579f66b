"""Predicates between events as compiled block filters.

Each level's predicates become one Python function, written from the bound expression tree (never from the user's text: the
source has only generated names and numbers), compiled (`kernels/filter_code.py`) and called once per block of candidates.
Bodies are branch-free: a condition is a pair (is true, is false), a value a pair (number, is known), which makes three-valued
logic four bit operations.

A filter reads columns by number. `ColumnSpec` says what each holds; `kleene.engine.passes.filter_values` fills them. Strings
become ranks in the order of all strings compared, constants included.

Constants are an argument, not part of the code, so conditions that differ in nothing else share a compiled filter; only the
divisors of `%` are written out, because dividing by a known number is several times faster. A long IN list is a sorted part of
the constants, and searched.

Cost: about 1.5-2.5 ns a candidate; some 20 ms to compile a query's filter, once per process.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa

from kleene.common.schema import Kind
from kleene.engine.expressions.filter_constants import OVERFLOW, Constant, End
from kleene.engine.expressions.vectorized import lacking_types
from kleene.engine.kernels import BlockFilter, compile_filter
from kleene.pattern import predicates as p
from kleene.pattern.bound import BoundQuery
from kleene.pattern.faults import is_atom, is_fallible, tolerant
from kleene.pattern.kinds import kind_of
from kleene.pattern.predicates import push_not
from kleene.plan.analysis.compilable import is_column, is_run_column, is_searched, needs_range

KNOWN, FAILED = 1, 2
"""Of a value in a column, beside 0 for NULL: there is one, or it left 64 bits."""


@dataclass(frozen=True, slots=True)
class ColumnSpec:
    """A column of a filter: the value of an expression over one variable's event, or whether its type lacks an attribute."""

    expression: p.Expression
    variable: str
    kind: Kind
    lacks: bool = False


@dataclass(slots=True)
class Program:
    """What the levels' bodies share: columns and constants, numbered."""

    bound: BoundQuery
    ints: list[ColumnSpec] = field(default_factory=list)
    floats: list[ColumnSpec] = field(default_factory=list)
    constants: list[Constant] = field(default_factory=list)

    def column(self, spec: ColumnSpec) -> tuple[str, int, int]:
        """(matrix, row of the value, row of its validity)."""
        is_float = spec.kind is Kind.FLOAT
        columns = self.floats if is_float else self.ints
        if spec not in columns:
            columns.append(spec)
        row = columns.index(spec)
        return ("floats", row, -row - 1) if is_float else ("ints", row, row)

    def constant(self, constant: Constant) -> int:
        """The entry of `constants` that has a value; of a list, the entry that has its begin, which that of its length follows.

        Equal constants have entries of their own: the code must not tell which are equal.
        """
        entry = 1 + sum(1 + known.is_list for known in self.constants)
        self.constants.append(constant)
        return entry


TURNED = {"=": "=", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
"""Comparison operators with their operands exchanged."""

Computed = tuple[pa.Array, np.ndarray[Any, Any] | None]
"""The values of a column by row, and the rows where computing it left 64 bits (None: nowhere)."""

Value = tuple[str, str, bool]
"""Source of (number, is known, is a float)."""

Truth = tuple[str, str]
"""Source of (is true, is false)."""


class Body:
    """Writes the body of one level: what reads only bound events goes before the loop, the rest inside it."""

    def __init__(self, program: Program, positions: dict[str, int], level: int, prefix: str = "v") -> None:
        self.program = program
        self.prefix = prefix
        """Of the names that the body defines: in a filter a name is of one kind."""
        self.positions = positions
        self.level = level
        self.fixed: list[str] = []
        """Constants, which go before everything else."""
        self.hoisted: list[str] = []
        self.inside: list[str] = []
        self._constants: dict[int, str] = {}
        self._names: dict[tuple[str, bool], str] = {}
        self._failing: list[str] = []
        """Whether something has left 64 bits in the current atom."""

    def in_loop(self, node: p.Expression) -> bool:
        """Whether a node's value changes from one candidate to the next."""
        return any(self.positions[variable] == self.level for variable in p.variables(node))

    def is_column(self, node: p.Expression) -> bool:
        """Whether a node is read as a column."""
        return is_column(node)

    def name(self, source: str, node: p.Expression) -> str:
        """A variable that holds the source's value, written once."""
        loop = self.in_loop(node)
        key = (source, loop)
        if key not in self._names:
            self._names[key] = f"{self.prefix}{len(self._names)}"
            (self.inside if loop else self.hoisted).append(f"{self._names[key]} = {source}")
        return self._names[key]

    def value(self, node: p.Expression) -> Value:
        if isinstance(node, p.Literal):
            return self._literal(node)
        if self.is_column(node):
            return self._column(node)
        if isinstance(node, p.Negate):
            number, known, is_float = self.value(node.operand)
            result = self.name(f"-{number}", node)
            if not is_float:
                self._fail(f"({number} < 0) & ({result} < 0) & {known}", node)
            return result, known, is_float
        if isinstance(node, p.Arithmetic):
            return self._arithmetic(node)
        # A condition used as a value: 1, 0 or unknown.
        true, false = self.truth(node)
        return self.name(f"{true} * 1", node), self.name(f"{true} | {false}", node), False

    def _literal(self, node: p.Literal) -> Value:
        value = node.value
        if value is None:
            return "0", "False", False
        if isinstance(value, bool):
            return str(int(value)), "True", False
        if isinstance(value, int) and not -(2**63) <= value < 2**63:
            return repr(value), "True", False
        is_float = isinstance(value, float)
        if id(node) not in self._constants:
            self._constants[id(node)] = self._entry(self.program.constant(Constant((value,), is_float)), is_float=is_float)
        return self._constants[id(node)], "True", is_float

    def _entry(self, entry: int, *, is_float: bool = False) -> str:
        """A variable that holds an entry of the constants; floats are kept as their bits."""
        name = f"{self.prefix}c{entry}"
        source = _as_float(f"constants[{entry}]") if is_float else f"constants[{entry}]"
        self.fixed.append(f"{name} = {source}")
        return name

    def _column(self, node: p.Expression) -> Value:
        (variable,) = p.variables(node)
        kind = kind_of(node, self.program.bound.schema)
        matrix, row, validity = self.program.column(ColumnSpec(node, variable, kind))
        number = self.name(f"{matrix}[{row}, {self._row(variable)}]", node)
        return number, self._known(f"valid[{validity}, {self._row(variable)}]", node), matrix == "floats"

    def _known(self, validity: str, node: p.Expression) -> str:
        """Whether a column has a value."""
        if not is_fallible(node, self.program.bound.schema):
            return self.name(f"{validity} != 0", node)
        self._fail(f"{validity} == {FAILED}", node)
        return self.name(f"{validity} == {KNOWN}", node)

    def _row(self, variable: str) -> str:
        position = self.positions[variable]
        return "row" if position == self.level else f"bound[{position}]"

    def _arithmetic(self, node: p.Arithmetic) -> Value:
        left, left_known, left_float = self.value(node.left)
        right, right_known, right_float = self.value(node.right)
        known = _all(left_known, right_known)
        is_float = left_float or right_float
        operator = node.operator
        if operator == "/":
            known = self.name(_all(known, f"({right} != 0)"), node)
            divisor = self.name(f"{right} if {right} != 0 else 1", node)
            return self.name(f"{left} / {divisor}", node), known, True
        if operator == "%":
            if isinstance(node.right, p.Literal) and type(node.right.value) is int:
                right = repr(node.right.value)
            known = self.name(_all(known, f"({right} != 0)"), node)
            return self._remainder(node, (left, left_float), (right, right_float)), known, is_float
        result = self.name(f"{left} {operator} {right}", node)
        if not is_float and operator == "*":
            # Far beyond 64 bits the same operation in floating point tells; close to the limit an overflow turns the sign.
            shadow = self.name(f"{left} * 1.0 * {right}", node)
            turned = f"(abs({shadow}) > 9.1e18) & (({result} < 0) != ({shadow} < 0))"
            self._fail(f"((abs({shadow}) > 9.3e18) | ({turned})) & {known}", node)
        elif not is_float:
            # A sum that has another sign than both its terms has left 64 bits; a difference is the left term of such a sum.
            total, *terms = (result, left, right) if operator == "+" else (left, result, right)
            turned = f"(({total} ^ {terms[0]}) & ({total} ^ {terms[1]}) < 0)"
            self._fail(_all(turned, known), node)
        return result, known, is_float

    def _remainder(self, node: p.Arithmetic, left: tuple[str, bool], right: tuple[str, bool]) -> str:
        """The remainder with the sign of the dividend; Python's has that of the divisor."""
        if left[1] or right[1]:
            dividend = left[0] if left[1] else self.name(f"np.float64({left[0]})", node)
            divisor = self.name(f"{right[0]} if {right[0]} != 0 else 1", node)
            remainder = self.name(f"abs({dividend}) % abs({divisor})", node)
            return self.name(f"-{remainder} if {dividend} < 0 else {remainder}", node)
        # The absolute value of the smallest integer is none, and its quotient by -1 neither: all remainders by -1 are 0.
        divisor = self.name(f"{right[0]} if ({right[0]} != 0) & ({right[0]} != -1) else 1", node)
        remainder = self.name(f"{left[0]} % {divisor}", node)
        turned = f"({remainder} != 0) & (({remainder} < 0) != ({left[0]} < 0))"
        return self.name(f"{remainder} - {divisor} if {turned} else {remainder}", node)

    def _fail(self, source: str, node: p.Expression) -> None:
        """Notes where a value leaves 64 bits."""
        failed = self.name(source, node)
        line = f"constants[{OVERFLOW}] |= {failed}"
        lines = self.inside if self.in_loop(node) else self.hoisted
        if line not in lines:
            lines.append(line)
        self._failing.append(failed)

    def truth(self, node: p.Expression) -> Truth:
        if isinstance(node, p.Fails):
            return self._fails(node)
        if isinstance(node, p.And | p.Or | p.Not):
            return self._combined(node)
        outer, self._failing = self._failing, []
        truth, own = self._atom(node), tuple(dict.fromkeys(self._failing))
        self._failing = [*outer, *own]
        if own:
            sound = self.name(f"not ({' | '.join(own)})", node)
            truth = self.name(_all(truth[0], sound), node), self.name(_all(truth[1], sound), node)
        return self._lacking(node, truth)

    def _fails(self, node: p.Fails) -> Truth:
        """Where a condition fails: an atom by itself, AND and OR where they would hold if what fails did."""
        if not is_atom(node.operand):
            would, does = self.truth(tolerant(node.operand, self.program.bound.schema))[0], self.truth(node.operand)[0]
            found = self.name(f"{would} & (not {does})", node)
            return found, self.name(f"not {found}", node)
        atom = push_not(node.operand)
        outer, self._failing = self._failing, []
        self.truth(atom)
        own, self._failing = tuple(dict.fromkeys(self._failing)), outer
        if not own:
            return "False", "True"
        lacking = self._lacking(atom, ("False", "False"))[0]
        found = self.name(f"({' | '.join(own)}) & (not {lacking})", node)
        return found, self.name(f"not {found}", node)

    def _combined(self, node: p.And | p.Or | p.Not) -> Truth:
        if isinstance(node, p.And | p.Or):
            pairs = [self.truth(operand) for operand in node.operands]
            all_true = " & ".join(true for true, _ in pairs)
            any_true = " | ".join(true for true, _ in pairs)
            all_false = " & ".join(false for _, false in pairs)
            any_false = " | ".join(false for _, false in pairs)
            if isinstance(node, p.And):
                return self.name(all_true, node), self.name(any_false, node)
            return self.name(any_true, node), self.name(all_false, node)
        true, false = self.truth(node.operand)
        return false, true

    def _atom(self, node: p.Expression) -> Truth:
        if isinstance(node, p.Comparison):
            return self._compared(node, node.operator, node.left, node.right)
        if isinstance(node, p.Between):
            low = self._compared(node, ">=", node.operand, node.low)
            high = self._compared(node, "<=", node.operand, node.high)
            return self.name(f"{low[0]} & {high[0]}", node), self.name(f"{low[1]} | {high[1]}", node)
        if isinstance(node, p.In):
            assert isinstance(node.items, tuple)
            if is_searched(node):
                return self._searched(node)
            pairs = [self._compared(node, "=", node.operand, item) for item in node.items]
            true = self.name(" | ".join(pair[0] for pair in pairs), node)
            return true, self.name(" & ".join(pair[1] for pair in pairs), node)
        if isinstance(node, p.IsNull):
            _, known, _ = self.value(node.operand)
            return self.name(f"not {known}", node), known
        number, known, _ = self.value(node)
        return self.name(f"{known} & ({number} != 0)", node), self.name(f"{known} & ({number} == 0)", node)

    def _searched(self, node: p.In) -> Truth:
        """Membership in a long list; numbers of different kinds are compared as floating point, as one by one."""
        number, known, is_float = self.value(node.operand)
        assert isinstance(node.items, tuple)
        values = [item.value for item in node.items if isinstance(item, p.Literal)]
        present = [value for value in values if value is not None]
        numbers = [value for value in present if isinstance(value, int | float)]
        as_floats = [float(value) for value in numbers if is_float or isinstance(value, float)]
        others = [value for value in present if not (is_float or isinstance(value, float))]
        found = [self._search(node, number, Constant(tuple(others), is_float=False, is_list=True))] if others else []
        if as_floats:
            compared = self.name(f"np.float64({number})", node)
            found.append(self._search(node, compared, Constant(tuple(as_floats), is_float=True, is_list=True)))
        held = self.name(" | ".join(found) or "False", node)
        missing = "False" if len(present) < len(values) else self.name(f"{known} & (not {held})", node)
        return self.name(f"{known} & {held}", node), missing

    def _search(self, node: p.In, number: str, constant: Constant) -> str:
        entry = self.program.constant(constant)
        begin, count = self._entry(entry), self._entry(entry + 1)
        at, left, half = (f"{self.prefix}{what}{entry}" for what in ("at", "left", "half"))
        read = _as_float if constant.is_float else str
        # As many steps whatever is found, and none that depends on the last comparison's outcome but by what it adds.
        (self.inside if self.in_loop(node) else self.hoisted).extend(
            (
                f"{at} = {begin}",
                f"{left} = {count}",
                f"while {left} > 1:",
                f"    {half} = {left} >> 1",
                f"    {at} += {half} if {read(f'constants[{at} + {half}]')} <= {number} else 0",
                f"    {left} -= {half}",
            )
        )
        return self.name(f"{read(f'constants[{at}]')} == {number}", node)

    def _compared(self, node: p.Expression, operator: str, left: p.Expression, right: p.Expression) -> Truth:
        if needs_range(left):
            operator, left, right = TURNED[operator], right, left
        if needs_range(right) and not needs_range(left):
            return self._within_range(node, operator, left, right)
        first, first_known, first_float = self.value(left)
        second, second_known, second_float = self.value(right)
        if first_float != second_float:
            # Numbers of different kinds are compared as floating point.
            first, second = (first, f"np.float64({second})") if first_float else (f"np.float64({first})", second)
        known = self.name(_all(first_known, second_known), node)
        sign = "==" if operator == "=" else operator
        result = self.name(f"{first} {sign} {second}", node)
        return self.name(f"{known} & {result}", node), self.name(f"{known} & (not {result})", node)

    def _within_range(self, node: p.Expression, operator: str, left: p.Expression, right: p.Literal) -> Truth:
        """A comparison with a time that columns need not hold, as a test of the numbers that compare so."""
        number, known, _ = self.value(left)
        tested = "=" if operator == "!=" else operator
        ends: tuple[End, End] = (tested, "first"), (tested, "last")
        first, last = (self._entry(self.program.constant(Constant((right.value,), is_float=False, end=end))) for end in ends)
        inside = self.name(f"({number} >= {first}) & ({number} <= {last})", node)
        true, false = self.name(f"{known} & {inside}", node), self.name(f"{known} & (not {inside})", node)
        return (false, true) if operator == "!=" else (true, false)

    def _lacking(self, node: p.Expression, truth: Truth) -> Truth:
        """An atomic predicate that reads an attribute which the event's type lacks holds, and so does its negation: swapping
        the two is what pushes NOT to the atoms.
        """
        bound = self.program.bound
        for attribute in p.walk(node):
            if not isinstance(attribute, p.Attribute):
                continue
            types = bound.component(attribute.variable).types
            lacking = [event_type for event_type in types if bound.lacks(event_type, attribute.name)]
            if not lacking:
                continue
            if len(lacking) == len(types):
                return "True", "True"
            spec = ColumnSpec(attribute, attribute.variable, Kind.BOOLEAN, lacks=True)
            matrix, row, _ = self.program.column(spec)
            flag = self.name(f"{matrix}[{row}, {self._row(attribute.variable)}] != 0", attribute)
            truth = self.name(f"{truth[0]} | {flag}", node), self.name(f"{truth[1]} | {flag}", node)
        return truth


def loop_lines(body: Body, loop: Sequence[str], rest: Sequence[str]) -> list[str]:
    """A loop over candidates: what goes before it, its head, the body with the rest of it, what goes after it.

    Whether integers leave 64 bits is kept in a variable: a loop that notes it in memory waits for that every time.
    """
    noted = f"constants[{OVERFLOW}] |= "
    inside = [line.replace(noted, "overflow |= ") if line.startswith(noted) else line for line in body.inside]
    is_noted = inside != body.inside
    return [
        *body.fixed,
        *body.hoisted,
        *(["overflow = 0"] if is_noted else []),
        loop[0],
        *(f"    {line}" for line in (*loop[1:], *inside, *rest)),
        *([f"{noted}overflow"] if is_noted else []),
    ]


class FlatBody(Body, ABC):
    """Of filters that are called with bare addresses: columns are flat, and read at a place that a subclass knows."""

    @abstractmethod
    def place(self, reference: p.Attribute, matrix: str, row: int) -> str:
        """The source of the place of the event of which a row of a matrix is read."""

    def is_column(self, node: p.Expression) -> bool:
        return is_run_column(node)

    def number(self, spec: ColumnSpec) -> tuple[str, int, str]:
        """(matrix, row of the value, source of the row of its validity: those of floats are counted from the end)."""
        matrix, row, _ = self.program.column(spec)
        return matrix, row, f"({'TOTAL - 1 - ' if matrix == 'floats' else ''}{row})"

    def _column(self, node: p.Expression) -> Value:
        reference = next(item for item in p.walk(node) if isinstance(item, p.Attribute))
        kind = kind_of(node, self.program.bound.schema)
        # An attribute is a column that variables share; what is computed is for the events of its variable.
        spec = ColumnSpec(p.transform(node, _single), reference.variable, kind)
        if isinstance(node, p.Attribute):
            spec = ColumnSpec(p.Attribute("", node.name), "", kind)
        matrix, row, validity = self.number(spec)
        place = self.place(reference, matrix, row)
        number = self.name(f"{matrix}[{row} * rows + {place}]", node)
        return number, self._known(f"valid[{validity} * rows + {place}]", node), matrix == "floats"

    def _lacking(self, node: p.Expression, truth: Truth) -> Truth:
        for reference in p.walk(node):
            if not isinstance(reference, p.Attribute | p.Aggregate) or reference.name is None:
                continue
            types = lacking_types(self.program.bound, reference)
            if not types:
                continue
            if len(types) == len(self.program.bound.component(reference.variable).types):
                return "True", "True"
            flag = self.lacks(reference)
            truth = self.name(f"{truth[0]} | {flag}", node), self.name(f"{truth[1]} | {flag}", node)
        return truth

    def lacks(self, reference: p.Attribute | p.Aggregate) -> str:
        """A variable that tells whether the event's type lacks the attribute."""
        assert isinstance(reference, p.Attribute)
        matrix, row, _ = self.number(lacking_column(reference))
        return self.name(f"{matrix}[{row} * rows + {self.place(reference, matrix, row)}] != 0", reference)


def lacking_column(reference: p.Attribute | p.Aggregate) -> ColumnSpec:
    """The column that tells whether an event's type lacks the attribute."""
    assert reference.name is not None
    return ColumnSpec(p.Attribute(reference.variable, reference.name), reference.variable, Kind.BOOLEAN, lacks=True)


def _single(node: p.Expression) -> p.Expression:
    """An attribute of an element as that of a single event: a column does not depend on which one."""
    return p.Attribute(node.variable, node.name) if isinstance(node, p.Attribute) else node


def _as_float(source: str) -> str:
    """The floating-point number whose bits an entry of the constants has."""
    return f"np.int64({source}).view(np.float64)"


def _all(*known: str) -> str:
    needed = [item for item in dict.fromkeys(known) if item != "True"]
    return " & ".join(needed) if needed else "True"


HEADER = "def block_filter(level, bound, stack, selected, n, ints, floats, valid, constants):"
CANDIDATES = ("for position in range(n):", "index = selected[level, position]", "row = stack[level, index]")


@dataclass(frozen=True, slots=True)
class FilterProgram:
    """The compiled filter of a plan and the columns it reads."""

    block_filter: BlockFilter
    ints: tuple[ColumnSpec, ...]
    floats: tuple[ColumnSpec, ...]
    constants: tuple[Constant, ...]
    source: str


def build_filter(bound: BoundQuery, variables: Sequence[str], levels: Sequence[Sequence[p.Expression]]) -> FilterProgram | None:
    """The block filter of the predicates decided at each level, or None without any."""
    if not any(levels):
        return None
    program = Program(bound)
    positions = {variable: index for index, variable in enumerate(variables)}
    lines = [HEADER]
    for level, conjuncts in enumerate(levels):
        if not conjuncts:
            continue
        body = Body(program, positions, level, f"v{level}_")
        held = [body.truth(conjunct)[0] for conjunct in conjuncts]
        rest = ("selected[level, kept] = index", f"kept += 1 if {' & '.join(held)} else 0")
        lines += [
            f"    if level == {level}:",
            "        kept = 0",
            *(f"        {line}" for line in loop_lines(body, CANDIDATES, rest)),
            "        return kept",
        ]
    lines.append("    return n")
    source = "\n".join(lines) + "\n"
    return FilterProgram(_compiled(source), tuple(program.ints), tuple(program.floats), tuple(program.constants), source)


@lru_cache(maxsize=256)
def _compiled(source: str) -> BlockFilter:
    return compile_filter(source)


@lru_cache(maxsize=1)
def no_filter() -> BlockFilter:
    """The filter of a plan without predicates between events: kernels need one to be typed."""
    return compile_filter(f"{HEADER}\n    return n\n")

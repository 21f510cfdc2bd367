"""Give every value memory and every kernel its loops."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from tilefoundry.codegen.cpu.copies import copy_kernel, index_kernel, literal_kernel
from tilefoundry.codegen.cpu.entry_params import check_extents, output_params
from tilefoundry.codegen.cpu.host_steps import (
    HostChecks,
    LoopSteps,
    Step,
    map_kernel_steps,
    no_checks,
    renamed,
    smaller,
    window_check,
)
from tilefoundry.codegen.cpu.inplace import INPLACE, inplace_pairs, touched
from tilefoundry.codegen.cpu.orders import atoms_of, item_names, result_names, wanted_orders
from tilefoundry.codegen.cpu.prims import lower_statements
from tilefoundry.codegen.cpu.schedule import KernelSpec, schedule
from tilefoundry.codegen.cpu.schedule.whole import wants_dense
from tilefoundry.codegen.cpu.slab import Lifetime, plan_slots
from tilefoundry.codegen.cpu.statement_kernels import StatementSpec
from tilefoundry.codegen.cpu.views import View, contiguous_strides, split_view
from tilefoundry.ir.core.expr import Atom, Bind, Block, Call, Constant, For, FunctionCall, Stmt, Var
from tilefoundry.ir.core.module import Module
from tilefoundry.ir.errors import LoweringError
from tilefoundry.ir.hir.function import Function
from tilefoundry.ir.passes import PARAM_PATHS, Names
from tilefoundry.ir.tir import DispatchCall, IndexValue, Launch, Let, Load, PrimFunction, Slab, TirStmt
from tilefoundry.ir.types import Dim, DimVar, DType, TensorType, TupleType, dim_vars, scalar, substitute
from tilefoundry.ir.types.dim import product

__all__ = ["Bufferise"]


@dataclass(frozen=True, slots=True)
class Bufferise:
    """From kernels as HIR functions and an entry of calls and views to PrimFunctions over buffers.

    Before: what ``Place`` gives. After: one PrimFunction per kernel, and the entry, whose parameters are its
    inputs and then its outputs.

    Attributes:
        schedule: gives a kernel its loops.
        statements: gives a kernel of statements what the target adds to its parameters.
        checks: gives what the host looks at before it launches a kernel.
    """

    schedule: Callable[[KernelSpec], PrimFunction] = schedule
    statements: Callable[[PrimFunction], PrimFunction] = lower_statements
    checks: HostChecks = no_checks

    def run(self, module: Module) -> Module:
        """``module`` with explicit memory."""
        entry = module.entry_function()
        assert isinstance(entry, Function)
        outputs = output_params(entry)
        params = (*entry.params, *outputs)
        check_extents(module, entry)
        names = Names([*(p.name for p in params), *(v.name for v in entry.dim_vars())])
        kernels: list[PrimFunction] = []
        body, inplace = _entry_body(entry, outputs, names, kernels, self)
        host = PrimFunction(entry.name, params, body, len(outputs))
        paths = module.metadata.get(PARAM_PATHS, tuple(p.name for p in entry.params))
        metadata = {
            **module.metadata,
            PARAM_PATHS: (*paths, *(out.name for out in outputs)),
            INPLACE: inplace,
        }
        return Module(
            module.name, (*kernels, host), host.name, (), module.target, module.topologies, metadata
        )


def _entry_body(
    entry: Function,
    outputs: tuple[Var, ...],
    names: Names,
    kernels: list[PrimFunction],
    lowers: Bufferise,
) -> tuple[tuple[TirStmt, ...], tuple[tuple[int, int], ...]]:
    """The host's statements, and the (output, input) pairs that hold whichever variant runs."""
    if entry.body is not None:
        host = _Host(entry, outputs, names, kernels, lowers)
        return host.lower(entry.body), host.inplace
    alternatives = []
    pairs: list[tuple[tuple[int, int], ...]] = []
    for variant in entry.variants:
        body, inplace = _entry_body(variant.function, outputs, names, kernels, lowers)
        alternatives.append((variant.pattern, body))
        pairs.append(inplace)
    subject = entry.variants[0].pattern.name
    common = tuple(pair for pair in pairs[0] if all(pair in one for one in pairs))
    return (DispatchCall(Var(scalar(DType.i64), subject), tuple(alternatives)),), common


@dataclass(slots=True)
class _Host:
    """Walks a host body once; memory is named first and placed when all of its uses are known."""

    entry: Function
    outputs: tuple[Var, ...]
    names: Names
    kernels: list[PrimFunction]
    lowers: Bufferise
    views: dict[str, View | tuple[View, ...]] = field(default_factory=dict)
    sizes: dict[str, Dim] = field(default_factory=dict)
    dtypes: dict[str, DType] = field(default_factory=dict)
    steps: list[Step] = field(default_factory=list)
    perms: dict[str, tuple[int, ...]] = field(default_factory=dict)
    items: dict[str, dict[int, str]] = field(default_factory=dict)
    inplace: tuple[tuple[int, int], ...] = ()
    whole: dict[str, Dim] = field(default_factory=dict)
    inside: set[str] = field(default_factory=set)

    def lower(self, block: Block) -> tuple[TirStmt, ...]:
        """The statements of the host."""
        for param in self.entry.params:
            assert isinstance(param.type, TensorType)
            self.views[param.name] = View.dense(param.name, param.type.dtype, param.type.shape)
        self.perms, self.items = wanted_orders(block), item_names(block)
        for stmt in block.stmts:
            self._stmt(stmt)
        homes = self._place_results(block.results)
        return self._statements(homes)

    def _stmt(self, stmt: Stmt) -> None:
        if isinstance(stmt, For):
            self._loop(stmt)
        else:
            assert isinstance(stmt, Bind)
            self._bind(stmt)

    def _loop(self, loop: For) -> None:
        """Each carried value has a buffer: what it begins with is copied there, and after each turn what comes next."""
        states: list[View] = []
        for carry in loop.carries:
            assert isinstance(carry.inner.type, TensorType)
            state = self._fresh(carry.inner.name, carry.inner.type)
            self._move(carry.initial, state)
            self.views[carry.inner.name] = self.views[carry.result.name] = state
            states.append(state)
        outside, self.steps = self.steps, []
        self.inside.add(loop.index.name)
        self.names.fresh(loop.index.name)
        self._window(loop)
        self._index(loop)
        for stmt in loop.body.stmts:
            self._stmt(stmt)
        self._carry(loop.body.results, states)
        self.inside.discard(loop.index.name)
        index = DimVar(loop.index.name, 0, 2**62)
        body, self.steps = tuple(self.steps), outside
        self.steps.append(
            LoopSteps(Var(scalar(DType.i64), index.name), loop.start, loop.stop, loop.step, body)
        )

    def _window(self, loop: For) -> None:
        """The extent of a tile that the edge may cut, as a number of the turn; memory is laid out for a whole tile."""
        if loop.window is None:
            return
        self.whole[loop.window.name] = loop.step
        self.names.fresh(loop.window.name)
        left = loop.stop - DimVar(loop.index.name, 0, 2**62)
        self.steps.append(Let(Var(scalar(DType.i64), loop.window.name), smaller(loop.step, left)))

    def _index(self, loop: For) -> None:
        """Where the index is a value that some kernel reads, memory that holds it."""
        if not any(isinstance(atom, Var) and atom.name == loop.index.name for atom in atoms_of(loop.body)):
            return
        held = self._fresh(f"{loop.index.name}_value", TensorType((1,), DType.i64))
        self.steps.append(index_kernel(self.names.fresh(f"{loop.index.name}_index"), loop.index.name, held))
        found = held.reshape(())
        assert found is not None
        self.views[loop.index.name] = found

    def _carry(self, results: tuple[Atom, ...], states: list[View]) -> None:
        """The next values into their buffers; one that lies in such a buffer is moved out before any is written."""
        held = {state.buffer for state in states}
        moves: list[tuple[Atom | View, View]] = []
        for atom, state in zip(results, states, strict=True):
            source = atom if isinstance(atom, Constant) else self._operand(atom)
            if source == state:
                continue
            if isinstance(source, View) and source.buffer in held:
                source = self._copied(f"{state.buffer}_next", source)
            moves.append((source, state))
        for source, state in moves:
            self._move(source, state)

    def _move(self, source: Atom | View, target: View) -> None:
        name = self.names.fresh(f"{target.buffer}_set")
        if isinstance(source, Constant):
            self.steps.append(literal_kernel(name, source, target))
        else:
            view = source if isinstance(source, View) else self._operand(source)
            self.steps.append(copy_kernel(name, view, target))

    def _bind(self, bind: Bind) -> None:
        if isinstance(bind.value, FunctionCall):
            self._launch(bind, bind.value)
        else:
            self.views[bind.target.name] = self._view(bind.target.name, bind.value)

    def _launch(self, bind: Bind, call: FunctionCall) -> None:
        if isinstance(call.callee, PrimFunction):
            self._launch_statements(bind.target.name, call, call.callee)
            return
        inputs = tuple(self._argument(call.callee, i, arg) for i, arg in enumerate(call.args))
        types = call.type.elements if isinstance(call.type, TupleType) else (call.type,)
        names = result_names(bind, self.items)
        outs = tuple(self._fresh(name, t) for name, t in zip(names, types, strict=True))  # type: ignore[arg-type]  # kernels give tensors
        self.views[bind.target.name] = outs[0] if len(outs) == 1 else outs
        self._check(self.lowers.checks(call.callee, self.names.fresh))
        self.steps.append(KernelSpec(call.callee, inputs, outs))

    def _launch_statements(self, name: str, call: FunctionCall, callee: PrimFunction) -> None:
        """Statements read and write dense memory."""
        inputs = tuple(map(self._dense, call.args))
        types = call.type.elements if isinstance(call.type, TupleType) else (call.type,)
        self.perms.pop(name, None)
        names = [name] if len(types) == 1 else [f"{name}_{param.name}" for param in callee.outputs]
        outs = tuple(self._fresh(one, t) for one, t in zip(names, types, strict=True))  # type: ignore[arg-type]  # tensors
        self.views[name] = outs[0] if len(outs) == 1 else outs
        self.steps.append(StatementSpec(callee, inputs, outs))

    def _dense(self, atom: Atom) -> View:
        view = self._operand(atom)
        return view if view.is_dense else self._copied(f"{view.buffer}_packed", view)

    def _argument(self, callee: Function, position: int, atom: Atom) -> View:
        view = self._operand(atom)
        if view.is_packed or not wants_dense(callee, position):
            return view
        return self._copied(f"{view.buffer}_packed", view)

    def _fresh(self, name: str, type_: TensorType) -> View:
        """A new buffer for a kernel's result, in the order that its reader wants."""
        buffer = self.names.fresh(name)
        size = type_.size if isinstance(type_.size, int) else substitute(type_.size, self.whole)
        changing = [var.name for var in dim_vars(size) if var.name in self.inside]
        if changing:
            raise LoweringError(
                f"{self.entry.name}: {name}: {type_} is as large as {changing[0]} says, another size in every turn of "
                "the loop; give it a size that does not change, and mask or slice what a turn needs"
            )
        self.sizes[buffer] = size
        self.dtypes[buffer] = type_.dtype
        view, perm = View.dense(buffer, type_.dtype, type_.shape), self.perms.get(name)
        if perm is None:
            return view
        stored = contiguous_strides(tuple(type_.shape[axis] for axis in perm))
        strides = tuple(stored[perm.index(axis)] for axis in range(len(perm)))
        return replace(view, strides=strides)

    def _operand(self, atom: Atom) -> View:
        if isinstance(atom, Constant):
            raise LoweringError(f"{self.entry.name}: a literal {atom.value} is passed where memory is needed")
        view = self.views[atom.name]
        assert isinstance(view, View)
        return view

    def _view(self, name: str, call: Call) -> View | tuple[View, ...]:
        source = call.args[0]
        if call.op.name == "tuple_get_item":
            assert isinstance(source, Var)
            group = self.views[source.name]
            assert isinstance(group, tuple)
            return group[call.attr("index")]
        view = self._operand(source)
        if call.op.name == "transpose":
            return view.transpose(call.attr("perm"))
        if call.op.name == "slice":
            return self._slice(name, view, call)
        if call.op.name == "split":
            return split_view(view, call.attr("axis"), call.attr("num_splits"))
        if call.op.name == "reshape":
            return self._reshape(name, view, call.attr("new_shape"))
        return view

    def _reshape(self, name: str, view: View, shape: tuple[Dim, ...]) -> View:
        found = view.reshape(shape)
        if found is not None:
            return found
        packed = self._copied(f"{name}_packed", view)
        found = packed.reshape(shape)
        assert found is not None, "a dense buffer takes any shape of its size"
        return found

    def _copied(self, name: str, view: View) -> View:
        """A dense copy of what ``view`` shows."""
        type_ = TensorType(view.shape, view.dtype)
        target = self._fresh(name, type_)
        self.steps.append(copy_kernel(self.names.fresh(f"{name}_copy"), view, target))
        return target

    def _slice(self, name: str, view: View, call: Call) -> View:
        given = iter(call.args[1:])
        starts = []
        for axis, start in enumerate(call.attr("starts")):
            if start is None:
                starts.append(self._start(name, next(given), view, axis, call))
                continue
            self._check(window_check(name, call, axis, start, view.shape[axis]))
            starts.append(start)
        return view.slice(tuple(starts), call.attr("sizes"), call.attr("strides"))

    def _check(self, checks: tuple[TirStmt, ...]) -> None:
        """The call's extents decide, so it is stopped before anything is written; in a loop, before the turn's work."""
        at = len(self.steps) if self.inside else 0
        self.steps[at:at] = checks

    def _start(self, name: str, atom: Atom, view: View, axis: int, call: Call) -> Dim:
        """A window's start that is a value: read on the host, and checked there."""
        if isinstance(atom, Constant):
            return int(atom.value)
        source = self._operand(atom)
        target = Var(scalar(DType.i64), self.names.fresh(f"{name}_start"))
        self.steps.append(
            Let(target, Load.of(Var(TensorType((), source.dtype), source.buffer), source.offset))
        )
        start = DimVar(target.name, 0, 2**62)
        self.steps.extend(window_check(name, call, axis, start, view.shape[axis]))
        return start

    def _place_results(self, results: tuple[Atom, ...]) -> dict[str, str]:
        """Buffer -> output parameter that it is; a result that cannot be computed in place is copied."""
        homes: dict[str, str] = {}
        for atom, param in zip(results, self.outputs, strict=True):
            if isinstance(atom, Constant):
                self._literal(atom, param)
                continue
            view = self._operand(atom)
            whole = (
                view.buffer in self.sizes and view.is_dense and product(view.shape) == self.sizes[view.buffer]
            )
            if whole and view.buffer not in homes:
                homes[view.buffer] = param.name
                continue
            assert isinstance(param.type, TensorType)
            target = View.dense(param.name, param.type.dtype, param.type.shape)
            self.steps.append(copy_kernel(self.names.fresh(f"{param.name}_copy"), view, target))
        return homes

    def _literal(self, value: Constant, param: Var) -> None:
        assert isinstance(param.type, TensorType)
        target = View.dense(param.name, param.type.dtype, param.type.shape)
        self.steps.append(literal_kernel(self.names.fresh(f"{param.name}_literal"), value, target))

    def _statements(self, homes: dict[str, str]) -> tuple[TirStmt, ...]:
        steps = [map_kernel_steps(step, lambda one: renamed(one, homes)) for step in self.steps]
        self.inplace = inplace_pairs(steps, self.entry.params, self.outputs)
        slab = self._slab(steps, homes)
        out: list[TirStmt] = [slab] if slab.slots else []
        out += map(self._statement, steps)
        return tuple(out)

    def _statement(self, step: Step) -> TirStmt:
        if isinstance(step, LoopSteps):
            return step.statement(tuple(map(self._statement, step.steps)))
        if isinstance(step, StatementSpec):
            kernel = self.lowers.statements(step.function)
            self.kernels.append(kernel)
            return step.launch(kernel)
        return self._emit(step) if isinstance(step, KernelSpec) else step

    def _slab(self, steps: list[Step], homes: dict[str, str]) -> Slab:
        lives: dict[str, Lifetime] = {}
        for i, step in enumerate(steps):
            for buffer in touched(step):
                if buffer not in self.sizes or buffer in homes:
                    continue
                size = product((self.sizes[buffer], self.dtypes[buffer].itemsize))
                known = lives.get(buffer)
                lives[buffer] = Lifetime(size, known.first if known else i, i)
        slots, chosen = plan_slots(lives)
        return Slab(
            slots, tuple((Var(TensorType((), self.dtypes[b]), b), slot) for b, slot in chosen.items())
        )

    def _emit(self, spec: KernelSpec) -> Launch:
        kernel = self.lowers.schedule(spec)
        self.kernels.append(kernel)
        dims = set(spec.dims())
        args = tuple(IndexValue.of(_dim(p)) if p.name in dims else p for p in kernel.params)
        return Launch(kernel.name, args)


def _dim(param: Var) -> DimVar:
    return DimVar(param.name, 0, 2**62)

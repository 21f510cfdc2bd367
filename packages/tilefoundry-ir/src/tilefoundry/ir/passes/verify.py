"""Check the invariants of HIR and TIR; passes rely on them and must keep them."""

from __future__ import annotations

from tilefoundry.ir.core.expr import (
    Atom,
    Bind,
    Block,
    Call,
    Constant,
    For,
    FunctionCall,
    MeshScope,
    Stmt,
    Var,
)
from tilefoundry.ir.core.module import Module
from tilefoundry.ir.errors import TypeRuleError, VerificationError
from tilefoundry.ir.hir.function import Function
from tilefoundry.ir.tir.function import PrimFunction
from tilefoundry.ir.tir.verify import verify_prim_function
from tilefoundry.ir.types import TupleType, Type

__all__ = ["verify_function", "verify_module"]


def verify_module(module: Module) -> None:
    """Check every function of ``module`` and of its children.

    Raises:
        VerificationError: naming module, function and statement.
    """
    for function in module.functions:
        try:
            if isinstance(function, Function):
                verify_function(function)
            else:
                verify_prim_function(function)
        except VerificationError as error:
            raise VerificationError(f"{module.path or module.name}.{error}") from error
    for child in module.modules:
        verify_module(child)


def verify_function(function: Function) -> None:
    """Check one HIR function: names bound once and before use, every call typed as its op types it.

    Raises:
        VerificationError: naming the function and the statement.
    """
    if function.body is None:
        if not function.variants:
            raise VerificationError(f"{function.name}: no body and no variant")
    else:
        _Scope(function).check()
    for variant in function.variants:
        verify_function(variant.function)


class _Scope:
    def __init__(self, function: Function) -> None:
        self._owner = function.name
        self._function = function
        self._known: dict[str, Type] = {}

    def check(self) -> None:
        function = self._function
        assert function.body is not None
        for param in function.params:
            self._define(param)
        self._block(function.body)
        wanted = function.result.elements if isinstance(function.result, TupleType) else (function.result,)
        results = function.body.results
        if len(results) != len(wanted):
            self._fail(f"returns {len(results)} values, declared are {len(wanted)}")
        for i, (atom, type_) in enumerate(zip(results, wanted, strict=True)):
            if not type_.same_value_type(atom.type):
                self._fail(f"result {i} is {atom.type}, declared is {type_}")

    def _block(self, block: Block) -> None:
        for stmt in block.stmts:
            self._stmt(stmt)
        for atom in block.results:
            self._use(atom, "a result")

    def _stmt(self, stmt: Stmt) -> None:
        if isinstance(stmt, Bind):
            self._bind(stmt)
        elif isinstance(stmt, MeshScope):
            for inner in stmt.stmts:
                self._stmt(inner)
        else:
            self._loop(stmt)

    def _bind(self, bind: Bind) -> None:
        value, name = bind.value, bind.target.name
        for arg in value.args:
            self._use(arg, name)
        if isinstance(value, Call):
            self._check_attrs(name, value)
            try:
                value.op.check_arity(len(value.args))
                inferred = value.op.infer(tuple(arg.type for arg in value.args), dict(value.attrs))
            except TypeRuleError as error:
                raise VerificationError(f"{self._owner}: {name}: {error}") from error
            if not inferred.same_value_type(value.type):
                self._fail(
                    f"{name} = tf.{value.op.name} is recorded as {value.type}, its rule gives {inferred}"
                )
        else:
            self._check_count(name, value)
        if not value.type.same_value_type(bind.target.type):
            self._fail(f"{name} has the type {bind.target.type}, its value has {value.type}")
        self._define(bind.target)

    def _check_attrs(self, name: str, call: Call) -> None:
        given, wanted = {key for key, _ in call.attrs}, {attr.name for attr in call.op.attrs}
        # Ops that normalise may fold attributes into one another.
        missing = set() if call.op.normalize else wanted - given
        if missing or not given <= wanted:
            self._fail(
                f"{name} = tf.{call.op.name} carries the attributes {', '.join(sorted(given)) or 'none'}, "
                f"its schema has {', '.join(sorted(wanted)) or 'none'}"
            )

    def _check_count(self, name: str, call: FunctionCall) -> None:
        own = call.enters_child or isinstance(call.callee, PrimFunction)
        params = call.callee.activations if own else call.callee.params
        if len(call.args) != len(params):
            self._fail(f"{name} calls {'.'.join(call.path)} with {len(call.args)} of {len(params)} arguments")

    def _loop(self, loop: For) -> None:
        for carry in loop.carries:
            self._use(carry.initial, carry.result.name)
            self._define(carry.inner)
        self._define(loop.index)
        self._block(loop.body)
        if len(loop.body.results) != len(loop.carries):
            self._fail(
                f"the loop over {loop.index.name} yields {len(loop.body.results)} of {len(loop.carries)} values"
            )
        for carry, result in zip(loop.carries, loop.body.results, strict=True):
            if not carry.inner.type.same_value_type(result.type):
                self._fail(
                    f"the loop carries {carry.inner.name} as {carry.inner.type}, its body yields {result.type}"
                )
            self._define(carry.result)

    def _use(self, atom: Atom, where: str) -> None:
        if isinstance(atom, Constant):
            return
        known = self._known.get(atom.name)
        if known is None:
            self._fail(f"{where} uses {atom.name}, which nothing before it binds")
        elif not known.same_value_type(atom.type):
            self._fail(f"{where} uses {atom.name} as {atom.type}, it is bound as {known}")

    def _define(self, var: Var) -> None:
        if var.name in self._known:
            self._fail(f"{var.name} is bound twice")
        self._known[var.name] = var.type

    def _fail(self, what: str) -> None:
        raise VerificationError(f"{self._owner}: {what}")

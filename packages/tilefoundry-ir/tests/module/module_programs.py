"""Programs that the module tests share."""

from tilefoundry import func, module
from tilefoundry.dsl import ConstTensor, DimVar, Tensor, tf

N = DimVar("N", 1, 64)


@module(entry="scale")
class Leaf:
    @func
    def scale(x: Tensor[(N, 4), "f32"], w: ConstTensor[(4,), "f32"]) -> Tensor[(N, 4), "f32"]:
        return x * w

    @func
    def ones() -> Tensor[(2,), "f32"]:
        return tf.zeros(Tensor[(2,), "f32"]) + 1.0

    @func
    def twice(x: Tensor[(N, 4), "f32"]) -> Tensor[(N, 4), "f32"]:
        return x + x


@module(entry="step")
class Tree:
    left = Leaf
    right = Leaf

    @func
    def step(x: Tensor[(N, 4), "f32"], gain: ConstTensor[(4,), "f32"]) -> Tensor[(N, 4), "f32"]:
        return right(left(x) * gain)

    @func
    def around(x: Tensor[(N, 4), "f32"], gain: ConstTensor[(4,), "f32"]) -> Tensor[(N, 4), "f32"]:
        return step(x, gain) + x


@module()
class Methods:
    leaf = Leaf

    @func
    def double(x: Tensor[(N, 4), "f32"]) -> Tensor[(N, 4), "f32"]:
        return x + x

    def forward(self, x):
        return self.leaf.scale(self.double(x))

    def where(self):
        return self


@module()
class Parts:
    @func
    def one(x: Tensor[(N, 4), "f32"]) -> Tensor[(N, 4), "f32"]:
        return x + x

    def helper(self, x):
        return self.one(x)


@module(entry="project")
class Converted:
    """A transposed weight, a stacked one, a plain one, and one made of two raw tensors."""

    @func
    def project(
        x: Tensor[(N, 3), "f32"],
        w: ConstTensor[(3, 4), "f32"],
        experts: ConstTensor[(12, 2), "bf16"],
        scale: ConstTensor[(), "f32"],
        both: ConstTensor[(2, 3), "f32"],
    ) -> Tensor[(N, 4), "f32"]:
        return tf.matmul(x, w) * scale

    @project.converter("w")
    def w_from(weight: Tensor[(4, 3), "f32"]) -> Tensor[(3, 4), "f32"]:
        return tf.transpose(weight, (1, 0))

    @project.converter("both")
    def both_from(up: Tensor[(3,), "f32"], down: Tensor[(3,), "f32"]) -> Tensor[(2, 3), "f32"]:
        return tf.stack(up, down, axis=0)

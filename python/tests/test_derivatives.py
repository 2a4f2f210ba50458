"""What PyTorch's autograd must never take for another: a tensor that was written, and one with a tangent."""

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
import torch.autograd.forward_ad as forward  # noqa: E402
from tails import as_written  # noqa: E402

import epifuse  # noqa: E402


@pytest.mark.parametrize("calls", [1, 3], ids=["first", "repeated"])
def test_a_tensor_that_out_wrote_is_not_used_for_gradients(calls):
    tail = epifuse.compile("x * 2")
    weight, saved, x = torch.ones(4, requires_grad=True), torch.full((4,), 3.0), torch.ones(4)
    product = (weight * saved).sum()
    version = saved._version
    with torch.no_grad():
        for _ in range(calls):
            tail(x, out=saved)
    assert saved._version >= version + calls
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        product.backward()


def test_every_array_of_out_is_told_of():
    first, second = torch.zeros(4), torch.zeros(4)
    epifuse.compile("return x * 2, x + 1")(torch.ones(4), out=(first, second))
    assert first._version == 1 and second._version == 1
    with torch.inference_mode():
        made = torch.zeros(4)
        epifuse.compile("x * 2")(torch.ones(4), out=made)  # such tensors have no versions


def test_tensors_with_tangents_are_refused():
    tail = as_written("sigmoid(x) * y")
    x, y = torch.ones(4), torch.ones(4)
    tail(x, y)  # remembered
    with forward.dual_level():
        dual = forward.make_dual(x, torch.ones(4))
        tail(x, y)
        for _ in range(2):
            with pytest.raises(ValueError, match="operand 'y' has a forward-mode tangent"):
                tail(x, dual)
        with torch.no_grad(), pytest.raises(ValueError, match="forward-mode tangent"):
            tail(dual, y)
        assert torch.equal(tail(forward.unpack_dual(dual).primal, y), tail(x, y))


def test_torch_compile_leaves_tangents_to_pytorch():
    torch._dynamo.reset()

    def function(x):
        return torch.sigmoid(x) * 2

    compiled = torch.compile(function, backend="epifuse")
    with torch.no_grad():
        compiled(torch.ones(4))
        with forward.dual_level():
            dual = forward.make_dual(torch.ones(4), torch.ones(4))
            found, want = forward.unpack_dual(compiled(dual)), forward.unpack_dual(function(dual))
            torch.testing.assert_close(found.primal, want.primal)
            torch.testing.assert_close(found.tangent, want.tangent)
        torch.testing.assert_close(compiled(torch.ones(4)), function(torch.ones(4)))
    assert epifuse.reports()[-1].kernels

"""Arrays of JAX on the CPU device, and of anything else that speaks DLPack."""

import numpy as np
import pytest
from tails import as_written

import epifuse

TAIL = as_written("relu(x) + bias")


def test_jax():
    jax = pytest.importorskip("jax", reason="JAX is not installed")
    x, bias = jax.numpy.linspace(-1, 1, 12, dtype="float32").reshape(3, 4), jax.numpy.ones(4, "float32")
    y = TAIL(x, bias)
    assert isinstance(y, jax.Array)
    np.testing.assert_array_equal(np.asarray(y), np.maximum(np.asarray(x), 0) + 1)
    assert TAIL(x.astype("bfloat16"), bias.astype("bfloat16")).dtype == jax.numpy.bfloat16
    with pytest.raises(TypeError, match="JAX"):
        TAIL(x, bias, out=x)


class Exporter:
    """An array of some library: nothing but DLPack."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


class OldExporter(Exporter):
    """The same before DLPack had versions."""

    def __dlpack__(self, stream=None):
        return self.array.__dlpack__()


@pytest.mark.parametrize("kind", [Exporter, OldExporter])
def test_dlpack(kind):
    x = np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4).T
    y = np.empty_like(x)
    TAIL(kind(x), np.ones(3, np.float32), out=y)
    np.testing.assert_array_equal(y, np.maximum(x, 0) + 1)
    with pytest.raises(TypeError, match="pass out="):
        TAIL(kind(x), np.ones(3, np.float32))

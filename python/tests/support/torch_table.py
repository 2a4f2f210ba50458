"""PyTorch's own table of operations, with their sample inputs, as `op_db`. Its code goes through the whole stack for each
sample, to find the test class that asks, and seeds the generators of devices that are not there: three quarters of the
time that the samples took. There is no such class here, so neither is done."""

import random

import numpy as np
import torch
from torch.testing._internal import common_utils
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.opinfo import core

__all__ = ["op_db"]


def _no_test():
    return None


def _seed_the_cpu(seed=None):
    seed = common_utils.SEED if seed is None else seed
    torch.default_generator.manual_seed(seed)
    random.seed(seed)
    np.random.seed(seed % 2**32)


common_utils.extract_test_fn = _no_test
common_utils.set_rng_seed = _seed_the_cpu
if hasattr(core, "extract_test_fn"):
    core.extract_test_fn = _no_test

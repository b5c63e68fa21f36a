"""A test class made from PyTorch's databases; ``test_device_type_tests.py`` runs it."""

import torch
from torch.testing._internal.common_device_type import (
    OpDTypes,
    instantiate_device_type_tests,
    ops,
)
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.common_modules import module_db, modules
from torch.testing._internal.common_optimizers import optim_db, optims
from torch.testing._internal.common_utils import TestCase, run_tests

DENSE_OPTIMIZERS = [info for info in optim_db if not info.only_supports_sparse_grads]


class TestDatabases(TestCase):
    """Tests made from PyTorch's lists of operators, modules and optimizers."""

    @ops(op_db[::30], dtypes=OpDTypes.any_one)
    def test_operator(self, device, dtype, op):
        for sample in op.sample_inputs(device, dtype):
            op(sample.input, *sample.args, **sample.kwargs)

    @ops(op_db[::60], allowed_dtypes=(torch.float32, torch.int64))
    def test_operator_dtypes(self, device, dtype, op):
        self.assertTrue(op.supports_dtype(dtype, self.device_type))
        self.assertEqual(
            op.supported_dtypes(self.device_type), op.supported_dtypes("cpu")
        )

    @modules(module_db[::20], allowed_dtypes=[torch.float32])
    def test_module(self, device, dtype, module_info, training):
        for sample in module_info.module_inputs_func(
            module_info, device, dtype, requires_grad=False, training=training
        ):
            if sample.forward_input is None:
                continue
            module = module_info.module_cls(
                *sample.constructor_input.args, **sample.constructor_input.kwargs
            ).to(device, dtype)
            module.train(training)
            module(*sample.forward_input.args, **sample.forward_input.kwargs)

    @optims(DENSE_OPTIMIZERS, dtypes=[torch.float32])
    def test_optimizer(self, device, dtype, optim_info):
        for sample in optim_info.optim_inputs_func(device=device):
            parameter = torch.ones(2, 2, device=device, dtype=dtype, requires_grad=True)
            parameter.grad = torch.ones_like(parameter)
            optimizer = optim_info.optim_cls([parameter], **sample.kwargs)
            optimizer.step(lambda: 1.0)


instantiate_device_type_tests(TestDatabases, globals())

if __name__ == "__main__":
    run_tests()

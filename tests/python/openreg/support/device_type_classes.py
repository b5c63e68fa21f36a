"""Test classes as PyTorch writes them; ``test_device_type_tests.py`` runs this file.

Each is written once for all devices, and ``instantiate_device_type_tests`` makes one
of it for the CPU and one for ours.
"""

import torch
from torch.testing import make_tensor
from torch.testing._internal.common_cuda import tf32_on_and_off
from torch.testing._internal.common_device_type import (
    deviceCountAtLeast,
    dtypes,
    dtypesIfCPU,
    dtypesIfPRIVATEUSE1,
    expectedFailure,
    instantiate_device_type_tests,
    largeTensorTest,
    onlyAccelerator,
    onlyCPU,
    onlyCUDA,
    onlyCUDAAndPRIVATEUSE1,
    onlyNativeDeviceTypes,
    onlyNativeDeviceTypesAnd,
    onlyOn,
    onlyPRIVATEUSE1,
    precisionOverride,
    skipCPUIfNoLapack,
    skipCUDAIfNoMagma,
    skipIf,
    skipMeta,
    skipPRIVATEUSE1If,
    tol,
    toleranceOverride,
)
from torch.testing._internal.common_dtype import all_types_and_complex_and
from torch.testing._internal.common_utils import (
    ACCELERATOR_TYPE,
    NATIVE_DEVICES,
    TEST_ACCELERATOR,
    TEST_MULTIACCELERATOR,
    TEST_PRIVATEUSE1,
    TEST_PRIVATEUSE1_DEVICE_TYPE,
    DeterministicGuard,
    TestCase,
    device_sleep,
    freeze_rng_state,
    parametrize,
    run_tests,
)

NUMBERS = all_types_and_complex_and(torch.half, torch.bfloat16, torch.bool)


class TestDecorators(TestCase):
    """What decides whether a test is made and run, and what it is given."""

    def test_device(self, device):
        self.assertEqual(device, self.get_primary_device())
        self.assertEqual(torch.device(device).type, self.device_type)
        self.assertIn(self.device_type, NATIVE_DEVICES)

    @dtypes(*NUMBERS)
    def test_dtypes(self, device, dtype):
        made = make_tensor((3, 4), device=device, dtype=dtype)
        self.assertEqual(made.dtype, dtype)
        self.assertEqual(made, made.cpu(), exact_device=False)

    @dtypes(torch.float32, torch.int64)
    @dtypesIfCPU(torch.int8)
    @dtypesIfPRIVATEUSE1(torch.float64)
    def test_dtypes_of_a_device(self, device, dtype):
        expected = torch.int8 if self.device_type == "cpu" else torch.float64
        self.assertEqual(dtype, expected)

    @onlyNativeDeviceTypes
    def test_native(self, device):
        self.assertEqual(torch.zeros(2, device=device), torch.zeros(2, device=device))

    @onlyNativeDeviceTypesAnd(["xla"])
    def test_native_and(self, device):
        pass

    @onlyAccelerator
    def test_accelerator(self, device):
        self.assertTrue(TEST_ACCELERATOR)
        self.assertTrue(self.device_type == ACCELERATOR_TYPE)
        self.assertEqual(torch.accelerator.current_accelerator().type, self.device_type)

    @onlyPRIVATEUSE1
    def test_from_outside(self, device):
        self.assertTrue(TEST_PRIVATEUSE1)
        self.assertEqual(TEST_PRIVATEUSE1_DEVICE_TYPE, self.device_type)
        self.assertIs(self.device_mod, torch.get_device_module(device))

    @onlyCUDAAndPRIVATEUSE1
    def test_cuda_and_from_outside(self, device):
        pass

    @onlyOn(["cuda", "openreg"])
    def test_on_named_devices(self, device):
        pass

    @onlyCUDA
    def test_cuda(self, device):
        pass

    @onlyCPU
    def test_cpu(self, device):
        pass

    @skipIf(False, "never")
    @skipMeta
    @skipCPUIfNoLapack
    @skipCUDAIfNoMagma
    def test_conditions_of_others(self, device):
        pass

    @skipPRIVATEUSE1If(True, "asked for")
    def test_skipped(self, device):
        pass

    @expectedFailure("openreg")
    def test_expected_failure(self, device):
        self.assertEqual(self.device_type, "cpu")

    @deviceCountAtLeast(2)
    @onlyAccelerator
    def test_two_devices(self, devices):
        self.assertTrue(TEST_MULTIACCELERATOR)
        self.assertEqual(devices, self.get_all_devices())
        self.assertEqual(len(devices), torch.accelerator.device_count())
        for device in devices:
            self.assertEqual(str(torch.ones(1, device=device).device), device)

    @onlyAccelerator
    @largeTensorTest("1GB")
    def test_large(self, device):
        pass

    @onlyAccelerator
    @largeTensorTest("1000000GB")
    def test_too_large(self, device):
        self.fail("there is not that much memory")

    @precisionOverride({torch.float32: 0.5})
    @dtypes(torch.float32)
    def test_precision(self, device, dtype):
        ones = torch.ones(2, dtype=dtype, device=device)
        self.assertEqual(ones, ones + 0.4)

    @toleranceOverride({torch.float32: tol(atol=0, rtol=0.5)})
    @dtypes(torch.float32)
    def test_tolerance(self, device, dtype):
        ones = torch.ones(2, dtype=dtype, device=device)
        self.assertEqual(ones, ones + 0.4)

    @tf32_on_and_off(0.005)
    def test_tf32(self, device):
        pass

    @parametrize("size", [0, 3])
    def test_parameters(self, device, size):
        self.assertEqual(torch.ones(size, device=device).sum().item(), size)


class TestHelpers(TestCase):
    """What the tests use besides."""

    @classmethod
    def setUpClass(cls):
        cls.was_set_up = True

    def test_set_up(self, device):
        self.assertTrue(self.was_set_up)

    def test_frozen_random_state(self, device):
        with freeze_rng_state():
            first = torch.rand(3, device=device)
        self.assertEqual(torch.rand(3, device=device), first)

    def test_sleep(self, device):
        device_sleep(self.device_type, 1000)

    @onlyAccelerator
    def test_sleep_keeps_a_stream_busy(self, device):
        module = torch.get_device_module(device)
        start, end = (module.Event(enable_timing=True) for _ in range(2))
        start.record()
        device_sleep(self.device_type, module.get_device_properties().clock_rate * 20)
        end.record()
        end.synchronize()
        self.assertGreaterEqual(start.elapsed_time(end), 19)

    def test_devices_have_to_agree(self, device):
        other = "cpu" if self.device_type != "cpu" else "meta"
        with self.assertRaisesRegex(AssertionError, "device"):
            self.assertEqual(
                torch.ones(2, device=device),
                torch.ones(2, device=other),
                exact_device=True,
            )

    def test_deterministic_mode(self, device):
        with DeterministicGuard(True):
            self.assertTrue(torch.empty(3, device=device).isnan().all())

    def test_warnings(self, device):
        with self.assertWarnsOnceRegex(UserWarning, ".*resized"):
            torch.add(torch.ones(3, device=device), 1, out=torch.ones(2, device=device))


class TestOnlyOurs(TestCase):
    """Made for our device alone, by its name."""

    def test_name(self, device):
        self.assertEqual(self.device_type, "openreg")


class TestOnlyFromOutside(TestCase):
    """Made for our device alone, by the name that PyTorch has for all like it."""

    def test_name(self, device):
        self.assertEqual(self.device_type, "openreg")


class TestOthers(TestCase):
    """Made for every device but ours."""

    def test_name(self, device):
        self.assertNotEqual(self.device_type, "openreg")


class TestOnlyCuda(TestCase):
    """Made for CUDA, and for devices that the environment names."""

    def test_name(self, device):
        self.assertEqual(self.device_type, "openreg")


instantiate_device_type_tests(TestDecorators, globals())
instantiate_device_type_tests(TestHelpers, globals())
instantiate_device_type_tests(TestOnlyOurs, globals(), only_for=("openreg",))
instantiate_device_type_tests(TestOnlyFromOutside, globals(), only_for="privateuse1")
instantiate_device_type_tests(TestOthers, globals(), except_for=("openreg",))
instantiate_device_type_tests(TestOnlyCuda, globals(), only_for=("cuda",))

if __name__ == "__main__":
    run_tests()

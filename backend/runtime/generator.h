// Random number generators of a device.
#pragma once

#include <ATen/CPUGeneratorImpl.h>

#include "backend/export.h"

namespace torch_openreg {

// A generator with the device's identity around the engine that draws: a plain
// CPU generator, so that a seed gives the CPU's numbers bit for bit and the
// CPU's kernels accept it. All state is the engine's. Thread-safe under mutex_,
// as every generator (see Note [Acquire lock when using random generators] in
// PyTorch).
struct TORCH_OPENREG_API OpenRegGeneratorImpl final : at::CPUGeneratorImpl {
  explicit OpenRegGeneratorImpl(c10::DeviceIndex device,
                                uint64_t seed = c10::default_rng_seed_val);

  void set_current_seed(uint64_t seed) override;
  uint64_t current_seed() const override;
  uint64_t seed() override;
  // The Mersenne Twister does not count its draws, so the offset is always 0.
  // Setting it to 0 goes back to the first number of the seed; any other throws
  // c10::Error. PyTorch needs both to pickle and to copy a generator.
  void set_offset(uint64_t offset) override;
  uint64_t get_offset() const override;
  void set_state(const c10::TensorImpl& state) override;
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override;
  static c10::DeviceType device_type();

  // What kernels draw from.
  const at::Generator& engine() const { return engine_; }

 private:
  OpenRegGeneratorImpl* clone_impl() const override;

  const at::Generator engine_;
};

// The default generator of `device`; a negative index is the current one.
// Throws c10::AcceleratorError if it does not exist.
TORCH_OPENREG_API const at::Generator& getDefaultOpenRegGenerator(
    c10::DeviceIndex device = -1);

// A new generator with the default seed. It serves every device: `device` is
// only what it says of itself, need not exist, and is none if negative.
TORCH_OPENREG_API at::Generator createOpenRegGenerator(
    c10::DeviceIndex device = -1);

}  // namespace torch_openreg

// Random number generators of a device.
#pragma once

#include <ATen/CPUGeneratorImpl.h>

#include <optional>

#include "backend/export.h"
#include "backend/runtime/stream.h"

namespace torch_openreg {

// Note [Whose state a generator has]
// The source that kernels draw from lives on the device's side and has a
// number. This object is its proxy. Seeding and setting the state change the
// proxy alone, at once and without waiting; the next operator that draws sends
// the state ahead, in the order of its stream, so draws that are queued keep
// the state they were queued with. Reading the state waits for the draws.
//
// A device that is reset loses its sources: a generator goes on from the state
// that it was given last.
//
// In the simulation the source is a generator of the CPU, so a seed gives the
// CPU's numbers bit for bit. Without kernels (bare/) the host draws, from this
// object's own state.

// Thread-safe under mutex_, as every generator (see Note [Acquire lock when
// using random generators] in PyTorch); prepare_draw takes that lock itself.
struct TORCH_OPENREG_API OpenRegGeneratorImpl final : at::CPUGeneratorImpl {
  explicit OpenRegGeneratorImpl(c10::DeviceIndex device,
                                uint64_t seed = c10::default_rng_seed_val);
  ~OpenRegGeneratorImpl() override;

  void set_current_seed(uint64_t seed) override;
  uint64_t current_seed() const override;
  uint64_t seed() override;
  void set_offset(uint64_t offset) override;
  uint64_t get_offset() const override;
  void set_state(const c10::TensorImpl& state) override;
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override;
  static c10::DeviceType device_type();

  // To be called before an operator that draws is launched on the current
  // stream of `device`: sends the state ahead if it has changed, and orders the
  // stream behind the one that drew last. A generator of no particular device
  // takes its state along, which waits. Returns the source's number.
  uint64_t prepare_draw(c10::DeviceIndex device);

 private:
  OpenRegGeneratorImpl* clone_impl() const override;
  void send_state(const OpenRegStream& stream);
  void fetch_state() const;
  void follow(const OpenRegStream& stream);
  void drop_source() noexcept;
  // Whether the source has moved on from the proxy's state. A device that was
  // reset has lost its sources.
  bool is_behind() const;

  const uint64_t id_;
  at::Generator host_;     // the state, unless draws have moved on from it
  bool is_sent_ = false;   // the source has had that state
  bool is_seeded_ = true;  // the state is that of a fresh seed
  std::optional<OpenRegStream> last_;  // the stream that drew last
  uint64_t life_ = 0;                  // of its device, at that time
};

// The default generator of `device`; a negative index is the current one.
// Throws c10::AcceleratorError if it does not exist.
TORCH_OPENREG_API const at::Generator& getDefaultOpenRegGenerator(
    c10::DeviceIndex device = -1);

// A new generator with the default seed.
TORCH_OPENREG_API at::Generator createOpenRegGenerator(
    c10::DeviceIndex device = -1);

}  // namespace torch_openreg

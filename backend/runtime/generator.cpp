#include "backend/runtime/generator.h"

#include <ATen/ops/empty.h>
#include <c10/core/DispatchKeySet.h>

#include <atomic>
#include <cstddef>
#include <deque>
#include <mutex>

#include "backend/runtime/check.h"
#include "backend/runtime/event.h"
#include "backend/runtime/functions.h"
#include "backend/seam.h"

namespace torch_openreg {

namespace {

uint64_t next_id() {
  static std::atomic<uint64_t> last{0};
  return ++last;
}

// The bytes of a generator's state.
at::Tensor state_of(const at::Generator& generator) {
  return at::Tensor(generator.unsafeGetGeneratorImpl()->get_state());
}

}  // namespace

OpenRegGeneratorImpl::OpenRegGeneratorImpl(c10::DeviceIndex device,
                                           uint64_t seed)
    : id_(next_id()), host_(at::detail::createCPUGenerator(seed)) {
  device_ = c10::Device(c10::DeviceType::PrivateUse1, device);
  key_set_ = c10::DispatchKeySet(c10::DispatchKey::PrivateUse1);
}

OpenRegGeneratorImpl::~OpenRegGeneratorImpl() { drop_source(); }

void OpenRegGeneratorImpl::drop_source() noexcept {
  if (!last_.has_value()) return;
  try {
    drop_device_generator(id_, *last_);
  } catch (const std::exception&) {
    // A device that is broken or gone has forgotten its sources.
  }
  last_.reset();
}

c10::DeviceType OpenRegGeneratorImpl::device_type() {
  return c10::DeviceType::PrivateUse1;
}

void OpenRegGeneratorImpl::set_current_seed(uint64_t seed) {
  host_.set_current_seed(seed);
  is_sent_ = false;
  is_seeded_ = true;
}

uint64_t OpenRegGeneratorImpl::current_seed() const {
  return host_.current_seed();
}

uint64_t OpenRegGeneratorImpl::seed() {
  const uint64_t chosen = host_.seed();
  is_sent_ = false;
  is_seeded_ = true;
  return chosen;
}

void OpenRegGeneratorImpl::set_offset(uint64_t offset) {
  TORCH_CHECK(offset == 0,
              "OpenReg generators do not count their draws, as the CPU's do "
              "not: the only offset is 0, got ",
              offset, "; use set_state");
  set_current_seed(current_seed());
}

uint64_t OpenRegGeneratorImpl::get_offset() const { return 0; }

void OpenRegGeneratorImpl::set_state(const c10::TensorImpl& state) {
  host_.unsafeGetGeneratorImpl()->set_state(state);
  is_sent_ = false;
  is_seeded_ = false;
}

void OpenRegGeneratorImpl::fetch_state() const {
  const at::Tensor state = state_of(host_);
  get_device_generator(
      id_, {static_cast<std::byte*>(state.mutable_data_ptr()), state.nbytes()},
      *last_);
  host_.unsafeGetGeneratorImpl()->set_state(*state.unsafeGetTensorImpl());
}

c10::intrusive_ptr<c10::TensorImpl> OpenRegGeneratorImpl::get_state() const {
  if (is_behind()) fetch_state();
  return host_.unsafeGetGeneratorImpl()->get_state();
}

bool OpenRegGeneratorImpl::is_behind() const {
  return is_sent_ && device_life(last_->device_index()) == life_;
}

void OpenRegGeneratorImpl::send_state(const OpenRegStream& stream) {
  if (is_seeded_) {
    return seed_device_generator(id_, host_.current_seed(), stream);
  }
  const at::Tensor state = state_of(host_);
  set_device_generator(
      id_,
      {static_cast<const std::byte*>(state.const_data_ptr()), state.nbytes()},
      stream);
}

// Makes draws on `stream` come behind the earlier ones.
void OpenRegGeneratorImpl::follow(const OpenRegStream& stream) {
  if (last_->device_index() == stream.device_index()) {
    OpenRegEvent drawn;
    drawn.record(*last_);
    drawn.block(stream);
    return;
  }
  if (is_sent_) {
    fetch_state();
    is_sent_ = false;
    is_seeded_ = false;
  }
  drop_source();
}

uint64_t OpenRegGeneratorImpl::prepare_draw(c10::DeviceIndex device) {
  const std::lock_guard lock(mutex_);
  const OpenRegStream stream = getCurrentOpenRegStream(device);
  if (last_.has_value() && device_life(last_->device_index()) != life_) {
    last_.reset();
    is_sent_ = false;
  }
  if (last_.has_value() && !(*last_ == stream)) follow(stream);
  last_ = stream;
  life_ = device_life(device);
  if (!is_sent_) {
    send_state(stream);
    is_sent_ = true;
  }
  return id_;
}

OpenRegGeneratorImpl* OpenRegGeneratorImpl::clone_impl() const {
  auto* const clone = new OpenRegGeneratorImpl(device_.index());
  clone->set_state(*get_state());
  return clone;
}

at::Generator createOpenRegGenerator(c10::DeviceIndex device) {
  return at::make_generator<OpenRegGeneratorImpl>(device);
}

const at::Generator& getDefaultOpenRegGenerator(c10::DeviceIndex device) {
  // Leaked: a tensor that is filled at the very end still finds it. Each starts
  // with a seed of its own, as the CPU's does, until it is seeded.
  static auto& generators = *[] {
    auto* const made = new std::deque<at::Generator>;
    for (c10::DeviceIndex i = 0; i < device_count(); ++i) {
      made->push_back(at::make_generator<OpenRegGeneratorImpl>(i));
      made->back().seed();
    }
    return made;
  }();
  return generators[static_cast<size_t>(resolve_device(device))];
}

}  // namespace torch_openreg

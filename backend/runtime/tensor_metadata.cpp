// Metadata of the backend on tensors, and how it gets into files and back.
#include <ATen/core/Tensor.h>
#include <c10/core/TensorImpl.h>
#include <torch/csrc/jit/serialization/pickler_helper.h>

#include <array>
#include <optional>
#include <string>
#include <unordered_map>

#include "backend/runtime/registration.h"

namespace torch_openreg {

namespace {

using Metadata = std::unordered_map<std::string, bool>;

// What a tensor can say of itself: PyTorch carries booleans under names. Never
// changes once a tensor has it, so that tensors may share it.
class OpenRegBackendMeta final : public c10::BackendMeta {
 public:
  explicit OpenRegBackendMeta(Metadata values) : values_(std::move(values)) {}
  const Metadata& values() const { return values_; }

 private:
  const Metadata values_;
};

constexpr std::array<const char*, 2> kNames = {"version_number",
                                               "format_number"};

const OpenRegBackendMeta* find(const at::Tensor& tensor) {
  return dynamic_cast<const OpenRegBackendMeta*>(
      tensor.unsafeGetTensorImpl()->get_backend_meta());
}

void check_name(const std::string& name) {
  for (const char* const known : kNames) {
    if (name == known) return;
  }
  TORCH_CHECK_VALUE(false, "a tensor on an OpenReg device has no metadata '",
                    name, "', only '", kNames[0], "' and '", kNames[1], "'");
}

// Called when a tensor is saved: adds what it has.
void get_metadata(const at::Tensor& tensor, Metadata& metadata) {
  const OpenRegBackendMeta* const found = find(tensor);
  if (found == nullptr) return;
  metadata.insert(found->values().begin(), found->values().end());
}

// Called when a tensor is loaded: what is given replaces what it has.
void set_metadata(const at::Tensor& tensor, Metadata& metadata) {
  if (metadata.empty()) return;
  for (const auto& [name, value] : metadata) check_name(name);
  Metadata values = metadata;
  if (const OpenRegBackendMeta* const before = find(tensor)) {
    values.insert(before->values().begin(), before->values().end());
  }
  tensor.unsafeGetTensorImpl()->set_backend_meta(
      c10::make_intrusive<OpenRegBackendMeta>(std::move(values)));
}

}  // namespace

void register_tensor_metadata() {
  torch::jit::TensorBackendMetaRegistry(c10::DeviceType::PrivateUse1,
                                        &get_metadata, &set_metadata);
}

}  // namespace torch_openreg

#include "backend/simulation/host/call_kinds.h"

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <atomic>

#include "backend/seam.h"
#include "backend/simulation/common/warnings.h"
#include "backend/simulation/host/metadata.h"
#include "backend/simulation/host/rehearsal.h"
#include "backend/simulation/host/shapes/rule.h"

namespace torch_openreg {

namespace {

// Entries; about a kilobyte each. There are far fewer signatures than kinds of
// calls.
constexpr size_t kMostKinds = 16384;
constexpr size_t kMostSignatures = 2048;

// What calls of a kind give. Searched at every launch.
record::MetadataCache& kinds() {
  static auto& instance = *new record::MetadataCache(kMostKinds);
  return instance;
}

// What a good call of a signature gave: see Note [Shape rules]. Apart from the
// kinds, because a key and a signature can be the same words.
record::MetadataCache& signatures() {
  static auto& instance = *new record::MetadataCache(kMostSignatures);
  return instance;
}

std::atomic<uint64_t> inferred{0};
std::atomic<uint64_t> rehearsed{0};

// Offsets matter where tensors share a storage: they may overlap.
uint64_t context_of(record::Writer& writer, uint64_t settings) {
  if (C10_LIKELY(!writer.has_shared_storage())) return settings;
  return record::MetadataCache::hash_of(0, settings, writer.offsets());
}

// The part of a call that decides whether the CPU has a kernel for it.
void write_signature(const OperatorInfo& info, Encoder& encoder,
                     std::span<const c10::IValue> arguments,
                     record::Words* signature) {
  const bool with_numbers = !info.checks_numbers();
  encoder.writer().write_signature(with_numbers, signature);
  if (with_numbers) return;
  for (const size_t i : info.enumerations) {
    if (arguments[i].isInt()) {
      signature->push(static_cast<record::Word>(arguments[i].toInt()));
    }
  }
}

// The metadata of a good call of the same signature; null if there was none.
Metadata find_signature(const OperatorInfo& info, Encoder& encoder,
                        uint64_t settings,
                        std::span<const c10::IValue> arguments) {
  record::Words signature;
  write_signature(info, encoder, arguments, &signature);
  return signatures().find(info.id, settings, signature.view());
}

// Whether a good call says that others of its kind are: kernels look at the
// dtypes of empty tensors no more than they need.
bool is_telling(Encoder& encoder, const record::CallMetadata& metadata) {
  if (!encoder.has_tensors()) return true;
  return encoder.largest_bytes() > 0 &&
         std::ranges::none_of(metadata.outputs, [](const auto& shape) {
           return shape.bytes == 0;
         });
}

void remember_signature(const OperatorInfo& info, Encoder& encoder,
                        uint64_t settings,
                        std::span<const c10::IValue> arguments,
                        const Metadata& metadata) {
  if (!is_telling(encoder, *metadata)) return;
  record::Words signature;
  write_signature(info, encoder, arguments, &signature);
  signatures().insert(info.id, settings, signature.view(), metadata);
}

// Keeps the metadata of a call that gives the same if its arguments are resized
// first. A call that must resize by itself is run each time.
void remember_kind(const OperatorInfo& info, Encoder& encoder,
                   uint64_t settings, const Metadata& metadata) {
  const bool is_resized_by_itself =
      !metadata->resizes.empty() && (encoder.writer().has_shared_storage() ||
                                     !can_resize_first(info, *metadata));
  if (is_resized_by_itself) return;
  kinds().insert(info.id, context_of(encoder.writer(), settings),
                 encoder.writer().key(), metadata);
}

std::atomic<bool> is_verifying{false};

// Rules and Meta kernels must say what the operator gives, and nothing of calls
// that it refuses.
void verify(const OperatorInfo& info, std::span<const c10::IValue> arguments,
            const record::CallMetadata& said) {
  bool has_warned = false;
  const NoWarnings no_warnings;
  Metadata given;
  try {
    given = rehearse(info, arguments, &has_warned);
  } catch (const c10::Error& error) {
    TORCH_INTERNAL_ASSERT(
        false, "the metadata that was inferred for ", info.name,
        " is of a call that is refused: ", error.what_without_backtrace());
  }
  TORCH_INTERNAL_ASSERT(given == nullptr || *given == said,
                        "the metadata that was inferred for ", info.name,
                        " is not what the operator gives");
}

// Whether the arguments are of several dtypes and not all contiguous. The CPU's
// iterator then converts copies of them, and their strides decide those of the
// output; a Meta kernel makes no copies.
bool is_laid_out_by_copies(std::span<const c10::IValue> arguments) {
  const at::Tensor* first = nullptr;
  bool is_mixed = false;
  bool is_contiguous = true;
  for (const c10::IValue& value : arguments) {
    if (!value.isTensor() || !value.toTensor().defined()) continue;
    const at::Tensor& tensor = value.toTensor();
    if (first == nullptr) first = &tensor;
    is_mixed |= tensor.scalar_type() != first->scalar_type();
    is_contiguous &= shapes::is_contiguous(tensor);
  }
  return is_mixed && !is_contiguous;
}

// Asks the rule or the Meta kernel; null if neither can be trusted.
Metadata ask_rule_or_meta(const OperatorInfo& info, Encoder& encoder,
                          std::span<const c10::IValue> arguments,
                          const record::CallMetadata& pattern) {
  if (info.rule != nullptr) {
    Metadata said = shapes::apply(info.rule, arguments, pattern);
    if (said != nullptr || !info.has_same_meta) return said;
  }
  if (is_laid_out_by_copies(arguments)) return nullptr;
  Metadata metadata = ask_meta(info, arguments, encoder.device());
  if (metadata == nullptr || info.has_same_meta) return metadata;
  return has_idle_strides(info, *metadata, arguments) ? nullptr : metadata;
}

// Whether the CPU has a kernel for such calls, by what it gives for small
// tensors; null if not, or if the Meta kernel disagrees.
Metadata learn_signature(const OperatorInfo& info, Encoder& encoder,
                         std::span<const c10::IValue> arguments) {
  Metadata small = rehearse_small(info, arguments);
  if (small == nullptr || info.checks_numbers()) return small;
  const Metadata meta = ask_meta_small(info, arguments, encoder.device());
  if (meta != nullptr && *meta == *small) return small;
  info.is_meta_usable.store(false, std::memory_order_relaxed);
  return nullptr;
}

// Of an operator for floats, as if a call had been seen.
Metadata infer_floats(const OperatorInfo& info,
                      std::span<const c10::IValue> arguments) {
  return info.gives_floats ? shapes::apply_to_floats(info.rule, arguments)
                           : nullptr;
}

}  // namespace

Metadata find_metadata(const OperatorInfo& info, Encoder& encoder,
                       uint64_t settings) {
  return kinds().find(info.id, context_of(encoder.writer(), settings),
                      encoder.writer().key());
}

bool is_known_signature(const OperatorInfo& info, Encoder& encoder,
                        uint64_t settings,
                        std::span<const c10::IValue> arguments) {
  return find_signature(info, encoder, settings, arguments) != nullptr;
}

void remember(const OperatorInfo& info, Encoder& encoder, uint64_t settings,
              std::span<const c10::IValue> arguments,
              const Metadata& metadata) {
  remember_signature(info, encoder, settings, arguments, metadata);
  remember_kind(info, encoder, settings, metadata);
}

Metadata infer_metadata(const OperatorInfo& info, Encoder& encoder,
                        uint64_t settings,
                        std::span<const c10::IValue> arguments) {
  if (info.rule == nullptr &&
      !info.is_meta_usable.load(std::memory_order_relaxed)) {
    return nullptr;
  }
  if (writes_overlapping(info, arguments) ||
      (encoder.writer().has_shared_storage() &&
       writes_shared(info, arguments))) {
    return nullptr;
  }
  Metadata pattern = find_signature(info, encoder, settings, arguments);
  const bool is_new = pattern == nullptr;
  if (is_new) pattern = infer_floats(info, arguments);
  if (pattern == nullptr && info.can_be_small) {
    pattern = learn_signature(info, encoder, arguments);
  }
  if (pattern == nullptr) return nullptr;
  Metadata metadata = ask_rule_or_meta(info, encoder, arguments, *pattern);
  if (metadata == nullptr) return nullptr;
  if (is_verifying.load(std::memory_order_relaxed)) {
    verify(info, arguments, *metadata);
  }
  inferred.fetch_add(1, std::memory_order_relaxed);
  if (is_new) {
    remember_signature(info, encoder, settings, arguments, pattern);
  }
  remember_kind(info, encoder, settings, metadata);
  return metadata;
}

Metadata learn_by_rehearsal(const OperatorInfo& info, Encoder& encoder,
                            uint64_t settings,
                            std::span<const c10::IValue> arguments,
                            bool* has_warned) {
  rehearsed.fetch_add(1, std::memory_order_relaxed);
  Metadata metadata = rehearse(info, arguments, has_warned);
  if (metadata == nullptr) return nullptr;
  if (!info.can_be_small) {
    const Metadata meta = ask_meta(info, arguments, encoder.device());
    if (meta != nullptr && *meta != *metadata) {
      info.is_meta_usable.store(false, std::memory_order_relaxed);
    }
  }
  if (!*has_warned) remember(info, encoder, settings, arguments, metadata);
  return metadata;
}

KindStatistics kind_statistics() {
  return {inferred.load(), rehearsed.load(), kinds().statistics()};
}

void set_verification(bool on) { is_verifying.store(on); }

}  // namespace torch_openreg

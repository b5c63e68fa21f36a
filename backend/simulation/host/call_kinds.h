// Finds the metadata of calls, by kind: the caches of kinds and of signatures,
// inference and rehearsal.
#pragma once

#include <ATen/core/ivalue.h>

#include <cstdint>
#include <memory>
#include <span>

#include "backend/simulation/host/encode.h"
#include "backend/simulation/host/operator_info.h"
#include "backend/simulation/record/metadata_cache.h"

namespace torch_openreg {

// The metadata of a call's outputs; null if it is not known. All of these take
// the encoded call and the settings that it runs under, and are thread-safe.
using Metadata = std::shared_ptr<const record::CallMetadata>;

// The outputs' metadata, if the same kind of call was made before.
Metadata find_metadata(const OperatorInfo& info, Encoder& encoder,
                       uint64_t settings);

// Whether a good call of the same signature was made before.
bool is_known_signature(const OperatorInfo& info, Encoder& encoder,
                        uint64_t settings,
                        std::span<const c10::IValue> arguments);

// The metadata of a call that nobody needs to run for it; null if there is no
// such way. It is remembered.
Metadata infer_metadata(const OperatorInfo& info, Encoder& encoder,
                        uint64_t settings,
                        std::span<const c10::IValue> arguments);

// The same by a rehearsal. A call that warns is not remembered: the next one is
// rehearsed again, and warns again, if the CPU's would. Throws what the
// operator throws.
Metadata learn_by_rehearsal(const OperatorInfo& info, Encoder& encoder,
                            uint64_t settings,
                            std::span<const c10::IValue> arguments,
                            bool* has_warned);

// The call was good, and gave this.
void remember(const OperatorInfo& info, Encoder& encoder, uint64_t settings,
              std::span<const c10::IValue> arguments, const Metadata& metadata);

struct KindStatistics {
  uint64_t inferred;              // known by a rule or a Meta kernel
  uint64_t rehearsed;             // tried out on the host in full
  record::CacheStatistics cache;  // of kinds
};
KindStatistics kind_statistics();

}  // namespace torch_openreg

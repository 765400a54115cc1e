#pragma once

#include <infinity/core/Context.h>
#include <infinity/memory/Region.h>
#include <stdint.h>

namespace infinity {
namespace memory {

/// 8 bytes, initially 0, for `compareAndSwap` and `fetchAndAdd`: as the target, and for the old
/// value.
class Atomic : public Region {
 public:
  Atomic(infinity::core::Context* context);
  ~Atomic() override;

  uint64_t getValue();
  void setValueNonAtomic(uint64_t value);

 protected:
  uint64_t value;
};

}  // namespace memory
}  // namespace infinity

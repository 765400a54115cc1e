#include "fabric/data/movers.h"

#include <fmt/format.h>
#include <unistd.h>

namespace verbatim::fabric {

Result<std::uint32_t> Movers::join(std::uint32_t end) const {
  for (std::uint32_t i = 1; i < image_.extent().movers; ++i) {
    MoverRecord& record = image_.mover(i);
    std::uint32_t free = MoverRecord::kFree;
    if (record.state.load(std::memory_order_relaxed) != free ||
        !record.state.compare_exchange_strong(free, claim_of(end), std::memory_order_acquire)) {
      continue;
    }
    record.generation.fetch_add(1, std::memory_order_acq_rel);
    record.process = static_cast<std::uint32_t>(getpid());
    (new (record.liveness.data()) Liveness)->begin();
    record.state.store(MoverRecord::kLives, std::memory_order_release);
    return name_of(i);
  }
  return refuse(EAGAIN, fmt::format("{} threads move packets of this fabric: there is room for no "
                                    "other",
                                    image_.extent().movers - 1));
}

void Movers::free_claims(std::uint32_t end) const {
  for (std::uint32_t i = 1; i < image_.extent().movers; ++i) {
    std::uint32_t claim = claim_of(end);
    image_.mover(i).state.compare_exchange_strong(claim, MoverRecord::kFree);
  }
}

void Movers::leave(std::uint32_t mover) const {
  MoverRecord& record = image_.mover(mover & kIndexMask);
  liveness_of(record).end();
  record.state.store(MoverRecord::kFree, std::memory_order_release);
}

}  // namespace verbatim::fabric

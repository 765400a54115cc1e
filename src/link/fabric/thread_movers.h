#pragma once

#include <cstdint>
#include <memory>

#include "fabric/data/doorbells.h"
#include "fabric/data/shared_fabric.h"

namespace verbatim::link {

/// A fabric's data path, as this process has it attached.
struct AttachedFabric {
  std::unique_ptr<fabric::SharedFabric> fabric;
  fabric::Doorbells doorbells;
  std::uint32_t end = 0;  // This program's.
};

/// The calling thread's mover, made when it is first asked for, and given back when the thread
/// ends: until then the fabric stays mapped. Null: the fabric has no room for another thread that
/// moves packets, which is logged once.
fabric::Mover* mover_of_this_thread(const std::shared_ptr<AttachedFabric>& fabric);

}  // namespace verbatim::link

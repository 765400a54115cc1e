#pragma once

#include <cstdint>
#include <optional>

#include "adapter/direct_target.h"
#include "region/region_table.h"
#include "transport/ib/responder.h"

/// What a responder does to 8 bytes of this program's memory.
namespace verbatim::adapter {

/// The value before; nothing where the memory refuses.
std::optional<std::uint64_t> execute(region::RegionTable& regions,
                                     const transport::ExecuteAtomic& atomic,
                                     const region::Accessor& by);
bool execute(region::RegionTable& regions, const transport::ExecuteAtomicWrite& write,
             const region::Accessor& by);

/// What a peer has asked for, of the kinds that are a matter of memory. `done` or `refused`
/// afterwards.
void answer(Assist& wanted, region::RegionTable& regions, const region::Accessor& by);

}  // namespace verbatim::adapter

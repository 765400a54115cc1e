#pragma once

#include <cstdint>
#include <optional>

#include "adapter/direct/mapped_target.h"
#include "arena/target.h"
#include "region/region_table.h"
#include "transport/ib/responder/responder.h"

/// Operations of a responder on 8 bytes of memory, of this process or of another.
namespace verbatim::adapter {

/// Returns the old value; 0 for an atomic write.
std::uint64_t apply(std::uint64_t& word, const OwnerRequest& wanted);

/// Returns the old value; nothing if the memory is refused.
std::optional<std::uint64_t> execute(region::RegionTable& regions,
                                     const transport::ExecuteAtomic& atomic,
                                     const region::Accessor& by);
bool execute(region::RegionTable& regions, const transport::ExecuteAtomicWrite& write,
             const region::Accessor& by);

/// The same on a peer's memory, on behalf of queue pair `qpn`. Requires the target's lock.
std::optional<std::uint64_t> execute_at(MappedTarget& there, const transport::ExecuteAtomic& atomic,
                                        Qpn qpn);
std::optional<std::uint64_t> execute_at(MappedTarget& there,
                                        const transport::ExecuteAtomicWrite& write, Qpn qpn);
/// Executes the operation on 8 aligned bytes of a peer and returns the old value; nothing if
/// refused. If peers cannot map the bytes, asks the owner (see ask_owner). Requires the target's
/// lock.
std::optional<std::uint64_t> execute_at(MappedTarget& there, const region::Region& region,
                                        MemoryKey key, std::uint64_t iova,
                                        const OwnerRequest& wanted);
/// Sends the request to the target's owner and waits one second at most. Returns the answer;
/// nothing if the owner refuses, has ended or does not answer. Requires the target's lock.
std::optional<std::uint64_t> ask_owner(MappedTarget& there, const OwnerRequest& wanted);

/// Called by the owner: executes a peer's request (invalidate, atomic) and sets its state to `done`
/// or `refused`.
void answer(OwnerRequest& wanted, region::RegionTable& regions, const region::Accessor& by);

}  // namespace verbatim::adapter

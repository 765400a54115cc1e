#pragma once

#include <cstdint>
#include <optional>

#include "adapter/direct/mapped_target.h"
#include "arena/target.h"
#include "region/region_table.h"
#include "transport/ib/responder/responder.h"

/// What a responder does to 8 bytes of memory, of this program or of another.
namespace verbatim::adapter {

/// The value before; 0 of an atomic write.
std::uint64_t apply(std::uint64_t& word, const OwnerRequest& wanted);

/// The value before; nothing where the memory refuses.
std::optional<std::uint64_t> execute(region::RegionTable& regions,
                                     const transport::ExecuteAtomic& atomic,
                                     const region::Accessor& by);
bool execute(region::RegionTable& regions, const transport::ExecuteAtomicWrite& write,
             const region::Accessor& by);

/// Of a peer whose lock is held, for a queue pair of this number: as `execute`.
std::optional<std::uint64_t> execute_at(MappedTarget& there, const transport::ExecuteAtomic& atomic,
                                        Qpn qpn);
std::optional<std::uint64_t> execute_at(MappedTarget& there,
                                        const transport::ExecuteAtomicWrite& write, Qpn qpn);
/// Of 8 aligned bytes of a peer, whose lock is held: the value before; nothing where it refuses.
/// Where peers do not have the bytes their owner does it; that is waited for, a second at most.
std::optional<std::uint64_t> execute_at(MappedTarget& there, const region::Region& region,
                                        MemoryKey key, std::uint64_t iova,
                                        const OwnerRequest& wanted);
/// What the owner answers to it; nothing where it refuses.
std::optional<std::uint64_t> ask_owner(const MappedTarget& there, const OwnerRequest& wanted);

/// What a peer has asked for, of the kinds that are a matter of memory. `done` or `refused`
/// afterwards.
void answer(OwnerRequest& wanted, region::RegionTable& regions, const region::Accessor& by);

}  // namespace verbatim::adapter

#pragma once

#include "agent/netlink/rdma_facts.h"
#include "wire/netlink/message.h"

/// The attributes of what RDMA netlink tells, in the kernel's order.
namespace verbatim::agent::netlink {

using wire::netlink::MessageWriter;

/// Index and name: they begin every answer about a device.
void put_handle(MessageWriter& out, const DeviceFact& device);
void put_device(MessageWriter& out, const DeviceFact& device);
void put_port(MessageWriter& out, const DeviceFact& device, const PortFact& port);
/// The values of a port's counters, and which counters it has.
void put_counters(MessageWriter& out, const PortFact& port);
void put_counter_names(MessageWriter& out, const PortFact& port);
/// How many resources there are of each kind.
void put_summary(MessageWriter& out, const ResourceFacts& resources);

// One resource. `shows_keys`: the keys of memory, too, which are for administrators.
void put(MessageWriter& out, const QueuePairFact& queue_pair, bool shows_keys);
void put(MessageWriter& out, const IdentifierFact& identifier, bool shows_keys);
void put(MessageWriter& out, const RegionFact& region, bool shows_keys);
void put(MessageWriter& out, const ContextFact& context, bool shows_keys);

}  // namespace verbatim::agent::netlink

#include "port/management.h"

#include <algorithm>
#include <cerrno>

#include "adapter/adapter.h"
#include "wire/mad/management_packet.h"

/// Services for the communication manager, which runs above the adapter.
namespace verbatim::adapter {

Result<void> Adapter::send_management(const SocketAddress& source, const SocketAddress& destination,
                                      wire::MadSpan mad) {
  const auto gids = port().gids();
  const auto own = std::ranges::find_if(gids, [&](const port::GidEntry& entry) {
    return same_ip(entry.address, source) &&
           roce_version(entry.address) == node().connection_version();
  });
  if (own == gids.end()) {
    return refuse(EADDRNOTAVAIL, fmt::format("{} is no address of this node", source.ip_text()));
  }
  const SocketAddress to = destination.with_port(own->address.port());
  // The PSN means nothing here: a receiver of unreliable datagrams does not look at it.
  return port::send_management(port().links(own - gids.begin()), roce_path(to), Psn(0), mad);
}

Result<ConnectionRecord*> Adapter::connection_record(std::uint32_t record) {
  VERBATIM_ASSERT(record < kConnectionsMax);
  const std::lock_guard guard(lock_);
  ArenaHeader& header = arena_->header();
  if (!header.connections) {
    auto records = arena_->allocate(kConnectionsMax * sizeof(ConnectionRecord));
    if (!records) return std::unexpected(records.error());
    header.connections.value = records->value;
  }
  if (record >= header.connection_count) header.connection_count = record + 1;
  return arena_->at(header.connections) + record;
}

}  // namespace verbatim::adapter

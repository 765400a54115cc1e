#include "fabric/management/node_counts.h"

#include "wire/mad/management_packet.h"

namespace verbatim::fabric {
namespace {

/// BTH, DETH and MAD: what lies between LRH and ICRC.
constexpr std::uint64_t kWordsOfADatagram =
    (wire::Bth::kSize + wire::Deth::kSize + wire::kMadBytes) / 4;

}  // namespace

mad::PortCounterValues NodeCounts::counters(std::uint8_t port) const {
  const PortCounts& counts = ports_[port];
  mad::PortCounterValues values{
      .transmit_data = counts.transmit_packets * kWordsOfADatagram,
      .receive_data = counts.receive_packets * kWordsOfADatagram,
      .transmit_packets = counts.transmit_packets,
      .receive_packets = counts.receive_packets,
      .symbol_errors = counts.symbol_errors,
      .link_error_recoveries = counts.link_error_recoveries,
      .link_downed = counts.link_downed,
      .transmit_constraint_errors = counts.transmit_constraint_errors,
      .receive_constraint_errors = counts.receive_constraint_errors,
      .local_link_integrity_errors = counts.link_integrity_errors,
      .local_physical_errors = counts.damaged_packets,
      .dlid_mapping_errors = counts.dlid_mapping_errors,
      .looping_errors = counts.looping_errors,
      .inactive_discards = counts.inactive_discards,
  };
  if (data_ != nullptr) data_->add_counters({node_, port}, values);
  return values;
}

}  // namespace verbatim::fabric

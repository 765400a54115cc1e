#include "fabric/management/node_counts.h"

namespace verbatim::fabric {

mad::PortCounterValues NodeCounts::counters(std::uint8_t port) const {
  const PortCounts& counts = ports_[port];
  mad::PortCounterValues values{
      .transmit_data = counts.transmit_words,
      .receive_data = counts.receive_words,
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
  if (!relays_) values.dlid_mapping_errors = values.vl_mapping_errors = values.looping_errors = 0;
  return values;
}

}  // namespace verbatim::fabric

// Any bytes as a packet of subnet management, subnet administration or performance management, and
// its data as every attribute; or as the subnet administrator's answer with a path, or with a table
// of them: nothing outside is read, and an accepted packet encodes (except reserved bits) and
// decodes to the same value.
#include <array>

#include "base/assert.h"
#include "wire/performance/class_port_info.h"
#include "wire/performance/counter_details.h"
#include "wire/performance/lane_counters.h"
#include "wire/performance/performance_packet.h"
#include "wire/performance/port_counters.h"
#include "wire/performance/port_samples.h"
#include "wire/subnet/administration_packet.h"
#include "wire/subnet/link_speed.h"
#include "wire/subnet/multicast_record.h"
#include "wire/subnet/node.h"
#include "wire/subnet/notice.h"
#include "wire/subnet/path_record.h"
#include "wire/subnet/port_info.h"
#include "wire/subnet/sm_info.h"
#include "wire/subnet/smp.h"
#include "wire/subnet/tables.h"

namespace {

using namespace verbatim;

template <typename Attribute, typename Packet>
void check(Packet packet) {
  const auto value = wire::data_as<Attribute>(packet);
  set_data(packet, value);
  VERBATIM_ASSERT(wire::data_as<Attribute>(packet) == value);
}

template <typename... Attributes, typename Packet>
void check_all(const Packet& packet) {
  (check<Attributes>(packet), ...);
}

template <typename... Details>
void check_details(wire::Notice notice) {
  const auto one = [&]<typename T>(T value) {
    set_details(notice, value);
    VERBATIM_ASSERT(wire::details_as<T>(notice) == value);
  };
  (one(wire::details_as<Details>(notice)), ...);
}

void check_subnet(const wire::Smp& smp) {
  using namespace wire;
  check_all<NodeDescription, NodeInfo, SwitchInfo, LedInfo, PortInfo, MellanoxExtendedPortInfo,
            GuidInfo, PKeyTable, SlToVlMappingTable, LinearForwardingTable,
            MulticastForwardingTable, SmInfo, Notice>(smp);
  VERBATIM_ASSERT(text_of(data_as<NodeDescription>(smp)).size() <= NodeDescription::kSize);
  (void)active_speed(data_as<PortInfo>(smp));
  check_details<GidDetails, SwitchDetails, PortErrorDetails, LocalChangesDetails,
                SystemImageGuidDetails, BadMKeyDetails, BadKeyDetails, SwitchBadPKeyDetails>(
      data_as<Notice>(smp));
  const auto table = decode_vl_arbitration_table(smp.data);
  std::array<std::byte, VlArbitrationTable::kSize> again;
  encode(table, again);
  VERBATIM_ASSERT(decode_vl_arbitration_table(again) == table);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const ByteSpan bytes(reinterpret_cast<const std::byte*>(data), size);
  std::array<std::byte, wire::kMadBytes> again;
  if (const auto smp = wire::decode_smp(bytes)) {
    encode(*smp, again);
    VERBATIM_ASSERT(wire::decode_smp(again) == smp);
    check_subnet(*smp);
  }
  if (const auto table = wire::decode_path_table(bytes)) {
    VERBATIM_ASSERT(table->records.size() * wire::PathRecord::kSize <= size);
  }
  if (const auto packet = wire::decode_administration_packet(bytes)) {
    encode(*packet, again);
    VERBATIM_ASSERT(wire::decode_administration_packet(again) == packet);
    check_all<wire::MulticastRecord, wire::PathRecord>(*packet);
  }
  if (const auto packet = wire::decode_performance_packet(bytes)) {
    using namespace wire;
    encode(*packet, again);
    VERBATIM_ASSERT(decode_performance_packet(again) == packet);
    check_all<ClassPortInfo, PortCounters, PortCountersExtended, PortReceiveErrorDetails,
              PortTransmitDiscardDetails, PortOperationalReceiveCounters, PortFlowControlCounters,
              PortVlOperationalPackets, PortVlOperationalData,
              PortVlTransmitFlowControlUpdateErrors, PortVlTransmitWaitCounters,
              SwitchPortVlCongestion, PortDataSl, PortSamplesControl>(*packet);
  }
  return 0;
}

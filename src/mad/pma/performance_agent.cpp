#include "mad/pma/performance_agent.h"

#include <algorithm>
#include <array>
#include <functional>

#include "mad/pma/counter_rows.h"
#include "wire/performance/class_port_info.h"
#include "wire/performance/port_samples.h"

namespace verbatim::mad {
namespace {

using wire::MadMethod;
using wire::MadStatus;
using wire::PerformanceAttribute;
using wire::PerformancePacket;

constexpr std::uint8_t kResponseTime = 16;  // 0.27 s.
/// Of ClassPortInfo::capabilities2: PortCountersExtended has the error counters, too.
constexpr std::uint32_t kExtendedErrorCounters = 1u << 1;

/// Calls `visit(shown, count, select, bits)` for each counter of an attribute, in order: `shown`
/// is its value there, `count` what the port counted.
template <typename Rows, typename Attribute, typename Visit>
void for_each_counter(Attribute& attribute, const PortCounterValues& values, const Visit& visit) {
  const auto one = [&](const auto& row) {
    auto& shown = attribute.*row.shown;
    const auto& counted = std::invoke(row.counted, values);
    if constexpr (requires { shown.size(); }) {
      for (unsigned i = 0; i < shown.size(); ++i) {
        visit(shown[i], counted[i], row.select + i, row.bits);
      }
    } else {
      visit(shown, counted, row.select, row.bits);
    }
  };
  std::apply([&](const auto&... rows) { (one(rows), ...); }, Rows::kRows);
}

constexpr std::uint64_t max_of(unsigned bits) { return ~std::uint64_t{0} >> (64 - bits); }

/// Counters of up to 32 bits stay at their maximum (IBA 16.1.3.5).
std::uint64_t shown_value(std::uint64_t count, unsigned bits) {
  return std::min(count, max_of(bits));
}

/// The bits of both select fields that the attribute has.
template <typename Attribute>
std::uint64_t selected(const Attribute& wanted) {
  std::uint64_t bits = wanted.counter_select;
  if constexpr (requires { wanted.counter_select2; }) {
    bits |= std::uint64_t{wanted.counter_select2} << 16;
  }
  return bits;
}

}  // namespace

bool PerformanceAgent::on_packet(PerformancePacket& packet) {
  constexpr std::uint8_t kResponseBit = 0x80;
  if ((raw(packet.method) & kResponseBit) != 0 || packet.method == MadMethod::trap_repress) {
    return false;
  }
  const bool is_set = packet.method == MadMethod::set;
  packet.status = is_set || packet.method == MadMethod::get ? answer(packet, is_set)
                                                            : Status::unsupported_method;
  packet.method = MadMethod::get_response;
  return true;
}

MadStatus PerformanceAgent::answer(PerformancePacket& packet, bool is_set) {
  using namespace wire;
  switch (packet.attribute) {
    case PerformanceAttribute::class_port_info:
      return class_port_info(packet, is_set);
    case PerformanceAttribute::port_samples_control:
      return samples_control(packet, is_set);
    case PerformanceAttribute::port_counters:
      return counters<PortCounters>(packet, is_set);
    case PerformanceAttribute::port_counters_extended:
      return counters<PortCountersExtended>(packet, is_set);
    case PerformanceAttribute::port_receive_error_details:
      return counters<PortReceiveErrorDetails>(packet, is_set);
    case PerformanceAttribute::port_transmit_discard_details:
      return counters<PortTransmitDiscardDetails>(packet, is_set);
    case PerformanceAttribute::port_operational_receive_counters:
      return counters<PortOperationalReceiveCounters>(packet, is_set);
    case PerformanceAttribute::port_flow_control_counters:
      return counters<PortFlowControlCounters>(packet, is_set);
    case PerformanceAttribute::port_vl_operational_packets:
      return counters<PortVlOperationalPackets>(packet, is_set);
    case PerformanceAttribute::port_vl_operational_data:
      return counters<PortVlOperationalData>(packet, is_set);
    case PerformanceAttribute::port_vl_transmit_flow_control_update_errors:
      return counters<PortVlTransmitFlowControlUpdateErrors>(packet, is_set);
    case PerformanceAttribute::port_vl_transmit_wait_counters:
      return counters<PortVlTransmitWaitCounters>(packet, is_set);
    case PerformanceAttribute::switch_port_vl_congestion:
      return counters<SwitchPortVlCongestion>(packet, is_set);
    case PerformanceAttribute::port_transmit_data_sl:
      return counters<PortDataSl, TransmittedDataSl>(packet, is_set);
    case PerformanceAttribute::port_receive_data_sl:
      return counters<PortDataSl, ReceivedDataSl>(packet, is_set);
    default:
      return Status::unsupported_attribute;
  }
}

/// Where traps go could be set, but the class has none.
MadStatus PerformanceAgent::class_port_info(PerformancePacket& packet, bool is_set) const {
  if (is_set) return Status::unsupported_attribute;
  using namespace wire::performance_capability;
  set_data(packet, wire::ClassPortInfo{.base_version = wire::MadHeader::kBaseVersion,
                                       .class_version = PerformancePacket::kClassVersion,
                                       .capabilities = kAllPortSelect | kExtendedCounters |
                                                       kTransmitWait | kQp1Dropped,
                                       .capabilities2 = kExtendedErrorCounters,
                                       .response_time = kResponseTime});
  return Status::ok;
}

/// There is no sampling mechanism; the tick is that of the transmit wait counters.
MadStatus PerformanceAgent::samples_control(PerformancePacket& packet, bool is_set) const {
  const auto asked = wire::data_as<wire::PortSamplesControl>(packet);
  if (is_set) return Status::unsupported_attribute;
  if (!has_port(asked.port_select)) return Status::invalid_value;
  set_data(packet,
           wire::PortSamplesControl{.port_select = asked.port_select, .tick = kTransmitWaitTick});
  return Status::ok;
}

template <typename Attribute, typename Rows>
MadStatus PerformanceAgent::counters(PerformancePacket& packet, bool is_set) {
  const auto wanted = wire::data_as<Attribute>(packet);
  const bool is_sum = wanted.port_select == wire::PortCounters::kAllPorts;
  if (!is_sum && !has_port(wanted.port_select)) return Status::invalid_value;
  const unsigned first = is_sum ? first_port_ : wanted.port_select;
  const unsigned last = is_sum ? last_port_ : wanted.port_select;

  Attribute shown{};
  shown.port_select = wanted.port_select;
  for (unsigned number = first; number <= last; ++number) {
    const auto port = static_cast<std::uint8_t>(number);
    if (is_set) write<Rows>(port, packet.attribute, wanted);
    const auto origins = origins_.find({port, packet.attribute});
    std::size_t counter = 0;
    for_each_counter<Rows>(
        shown, source_.counters(port),
        [&]<typename Shown>(Shown& value, std::uint64_t count, unsigned, unsigned bits) {
          // Transmit wait may go back by a little (fabric/data/image/tables.h).
          if (origins != origins_.end()) count -= std::min(count, origins->second[counter]);
          ++counter;
          const std::uint64_t sum = shown_value(count, bits) + value;
          value = static_cast<Shown>(shown_value(sum, bits));
        });
  }
  wire::set_data(packet, shown);
  return Status::ok;
}

template <typename Rows, typename Attribute>
void PerformanceAgent::write(std::uint8_t port, PerformanceAttribute key, Attribute wanted) {
  Origins& origins = origins_[{port, key}];
  static_assert(std::tuple_size_v<decltype(Rows::kRows)> <= kCountersMax);
  const std::uint64_t select = selected(wanted);
  std::size_t counter = 0;
  for_each_counter<Rows>(wanted, source_.counters(port),
                         [&](std::uint64_t value, std::uint64_t count, unsigned bit, unsigned) {
                           if ((select >> bit & 1) != 0) origins[counter] = count - value;
                           ++counter;
                         });
}

}  // namespace verbatim::mad

// What the manager is told without asking, and what happens as time goes by.
#include <algorithm>

#include "mad/sma/notices.h"
#include "mad/sma/subnet_agent.h"

namespace verbatim::mad {
namespace {

/// Traps are not sent faster, whatever SubnetTimeOut says.
constexpr TimeNs kPaceMin = 32 * kMillisecond;

/// 4.096 us * 2^SubnetTimeOut (IBA 13.4.9).
TimeNs pace_of(const wire::PortInfo& port) {
  return std::max(kPaceMin, TimeNs{4096} << port.subnet_timeout);
}

}  // namespace

void SubnetAgent::raise(std::uint8_t port, const wire::Notice& notice, TimeNs now,
                        SubnetEffects& out) {
  traps_.raise(port, notice, now);
  out.has_new_deadline = true;
}

void SubnetAgent::on_link_integrity_error(std::uint8_t port, TimeNs now, SubnetEffects& out) {
  raise(port, link_integrity_notice(node_, port), now, out);
}

void SubnetAgent::on_bad_key(std::uint8_t port, wire::TrapNumber trap,
                             const wire::BadKeyDetails& details, TimeNs now, SubnetEffects& out,
                             unsigned count) {
  wire::PortInfo& info = node_.management_port(port).info;
  std::uint16_t& violations =
      trap == wire::TrapNumber::bad_p_key ? info.p_key_violations : info.q_key_violations;
  violations = static_cast<std::uint16_t>(std::min(0xffffU, violations + count));
  raise(port, bad_key_notice(node_, port, trap, details), now, out);
}

void SubnetAgent::on_bad_key_at_switch(std::uint8_t port, wire::SwitchBadPKeyDetails details,
                                       TimeNs now, SubnetEffects& out) {
  std::uint16_t& violations = node_.ports[port].info.p_key_violations;
  if (violations != 0xffff) ++violations;
  details.switch_lid = node_.ports[0].info.lid;
  details.port = port;
  raise(port, switch_bad_p_key_notice(node_, details), now, out);
}

bool SubnetAgent::set_capability(std::uint8_t port, std::uint32_t capability, bool has_it,
                                 TimeNs now, SubnetEffects& out) {
  wire::PortInfo info = node_.management_port(port).info;
  if (((info.capabilities & capability) != 0) == has_it) return false;
  info.capabilities ^= capability;
  commit(node_.is_switch() ? 0 : port, info, out);
  raise(port, capabilities_notice(node_, port), now, out);
  return true;
}

/// Each port may have another manager.
void SubnetAgent::set_description(const wire::NodeDescription& description, TimeNs now,
                                  SubnetEffects& out) {
  if (node_.description == description) return;
  node_.description = description;
  const unsigned first = node_.is_switch() ? 0 : 1;
  const unsigned last = node_.is_switch() ? 0 : node_.info.ports;
  for (unsigned i = first; i <= last; ++i) {
    const auto port = static_cast<std::uint8_t>(i);
    raise(port, description_notice(node_, port), now, out);
    out.changed_port = port;
  }
}

TimeNs SubnetAgent::deadline() const {
  TimeNs first = traps_.deadline();
  for (const SubnetPort& port : node_.ports) first = std::min(first, port.m_key_lease_end);
  return first;
}

void SubnetAgent::on_time(TimeNs now, SubnetEffects& out) {
  for (std::size_t i = 0; i < node_.ports.size(); ++i) {
    if (!end_m_key_lease(node_.ports[i], now)) continue;
    const auto port = static_cast<std::uint8_t>(i);
    tables_.set_port(port, node_.ports[i].info);
    out.changed_port = port;
    out.has_new_deadline = true;
  }
}

std::optional<TrapDatagram> SubnetAgent::take_trap(TimeNs now) {
  while (const auto due = traps_.due(now)) {
    const wire::PortInfo& port = node_.management_port(due->port).info;
    if (port.sm_lid == Lid{}) {
      traps_.end(due->transaction);
      continue;
    }
    traps_.on_sent(due->transaction, now, pace_of(port));
    TrapDatagram trap{
        .port = due->port,
        .smp = {.method = wire::MadMethod::trap,
                .transaction = due->transaction,
                .attribute = wire::SubnetAttribute::notice,
                .m_key = port.m_key},
        .path = {.dlid = port.sm_lid, .slid = port.lid, .service_level = port.sm_service_level}};
    set_data(trap.smp, due->notice);
    return trap;
  }
  return std::nullopt;
}

}  // namespace verbatim::mad

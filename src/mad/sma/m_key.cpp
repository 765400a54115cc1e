#include "mad/sma/m_key.h"

namespace verbatim::mad {

MKeyAccess m_key_access(const wire::PortInfo& port, wire::MadMethod method, std::uint64_t m_key) {
  if (port.m_key == 0 || port.m_key == m_key) return MKeyAccess::holder;
  const bool may_read = method == wire::MadMethod::get && port.m_key_protect < 2;
  return may_read ? MKeyAccess::reader : MKeyAccess::refused;
}

bool hides_m_key(const wire::PortInfo& port, MKeyAccess access) {
  return access == MKeyAccess::reader && port.m_key_protect == 1;
}

void on_m_key_violation(SubnetPort& port, TimeNs now) {
  if (port.info.m_key_violations != 0xffff) ++port.info.m_key_violations;
  // A period of 0 lasts for ever.
  if (port.m_key_lease_end == kNever && port.info.m_key_lease_period_s != 0) {
    port.m_key_lease_end = now + port.info.m_key_lease_period_s * kSecond;
  }
}

bool end_m_key_lease(SubnetPort& port, TimeNs now) {
  if (port.m_key_lease_end == kNever || port.m_key_lease_end > now) return false;
  port.m_key_lease_end = kNever;
  port.info.m_key_protect = 0;
  return true;
}

}  // namespace verbatim::mad

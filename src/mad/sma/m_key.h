#pragma once

#include <cstdint>

#include "base/time.h"
#include "mad/sma/subnet_node.h"
#include "wire/mad/mad.h"

/// The key that protects a port from other managers than its own (IBA 14.2.4).
namespace verbatim::mad {

enum class MKeyAccess : std::uint8_t {
  holder,  // Has the key, or there is none.
  reader,  // May read without it: protection levels 0 and 1.
  refused,
};
MKeyAccess m_key_access(const wire::PortInfo& port, wire::MadMethod method, std::uint64_t m_key);

/// True where an answer must not show the key.
bool hides_m_key(const wire::PortInfo& port, MKeyAccess access);

/// Counts a request that was refused, and lets the lease run: if the manager is gone, another one
/// can read the port once it has ended.
void on_m_key_violation(SubnetPort& port, TimeNs now);
/// Ends the lease if its time has come; the key stays. Returns true if it has ended.
bool end_m_key_lease(SubnetPort& port, TimeNs now);

}  // namespace verbatim::mad

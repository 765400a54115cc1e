#pragma once

#include <vector>

#include "fabric/daemon/hosts/host_facts.h"
#include "mad/pma/port_counter_source.h"

namespace verbatim::fabric {

/// The files that Linux has for a port's counters, as
/// Documentation/ABI/stable/sysfs-class-infiniband describes them: the values of its performance
/// management agent.
std::vector<HostFile> counter_files(unsigned port, const mad::PortCounterValues& values);

}  // namespace verbatim::fabric

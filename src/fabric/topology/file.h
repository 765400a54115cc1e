#pragma once

#include <string>

#include "base/error.h"
#include "fabric/topology/read.h"

namespace verbatim::fabric {

/// `read_topology` of a file's text; '-' is standard input. The error says why the file cannot be
/// read.
Result<Reading> read_topology_file(const std::string& path);
/// As messages have it.
std::string name_of_topology_file(const std::string& path);

}  // namespace verbatim::fabric

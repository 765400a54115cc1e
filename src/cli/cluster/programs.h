#pragma once

#include <cstddef>

#include "cli/cluster/description.h"

/// The programs that run on a cluster's nodes: this user's, by their network namespaces.
namespace verbatim::cli::cluster {

std::size_t count_programs(const Description& description);
void signal_programs(const Description& description, int signal);

}  // namespace verbatim::cli::cluster

#pragma once

#include <span>

#include "cli/doctor/facts/machine.h"
#include "cli/doctor/finding.h"

namespace verbatim::cli::doctor {

/// A check: a pure function of the facts about the machine.
using MachineCheck = Findings (*)(const Machine&);

// installation_checks.cpp
Findings check_installation(const Machine& machine);
Findings check_variables(const Machine& machine);
Findings check_runtime_folder(const Machine& machine);
// kernel_checks.cpp
Findings check_kernel(const Machine& machine);
Findings check_peer_copy(const Machine& machine);
Findings check_memory_sharing(const Machine& machine);
Findings check_container(const Machine& machine);
Findings check_clusters(const Machine& machine);
Findings check_smart_nic(const Machine& machine);
Findings check_ipoib(const Machine& machine);
// service_checks.cpp
Findings check_services(const Machine& machine);
Findings check_lnet(const Machine& machine);
// limit_checks.cpp
Findings check_address_space(const Machine& machine);
Findings check_file_size(const Machine& machine);
Findings check_open_files(const Machine& machine);
Findings check_processes(const Machine& machine);
Findings check_memory(const Machine& machine);
Findings check_locked_memory(const Machine& machine);
Findings check_shared_memory_folder(const Machine& machine);
// network_checks.cpp
Findings check_interfaces(const Machine& machine);
Findings check_roce_port(const Machine& machine);
Findings check_tcp_ports(const Machine& machine);
Findings check_roce_v1(const Machine& machine);
Findings check_receive_buffer(const Machine& machine);
Findings check_connection_tracking(const Machine& machine);
// node_checks.cpp
Findings check_agents(const Machine& machine);
Findings check_node(const Machine& machine);
Findings check_device(const Machine& machine);
Findings check_path(const Machine& machine);

/// Runs all checks, in the order of the report.
Findings check_machine(const Machine& machine);

/// Returns the value of a variable; empty if it is not set.
std::string variable(const Machine& machine, const char* name);
/// Returns "208 KiB", "64 GiB".
std::string size_text(std::uint64_t bytes);
/// Returns why no program here can use the direct path; empty if some can.
std::string reason_for_wire(const Machine& machine);

}  // namespace verbatim::cli::doctor

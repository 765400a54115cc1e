#pragma once

#include <array>

namespace verbatim::cli::doctor {

/// Something that a command needs, and that an installation of Verbatim may be without.
struct ServiceNeed {
  const char* subject;
  const char* command;
  const char* what;
  const char* package;
  std::array<const char*, 2> any_of;  // Paths; relative ones are in the folder of the drop-ins.
};

inline constexpr ServiceNeed kServiceNeeds[] = {
    {"rsockets, SDP",
     "verbatim run --sdp",
     "librspreload.so",
     "Verbatim again",
     {"rsocket/librspreload.so.1", nullptr}},
    {"RDS",
     "verbatim run --rds",
     "librdspreload.so",
     "Verbatim again",
     {"rds/librdspreload.so.1", nullptr}},
    {"targetcli",
     "verbatim run -- targetcli",
     "targetcli",
     "the package targetcli-fb",
     {"/usr/bin/targetcli", "/usr/sbin/targetcli"}},
    {"NFS",
     "verbatim nfs serve FOLDER",
     "nfs-ganesha",
     "the packages nfs-ganesha and nfs-ganesha-vfs",
     {"/usr/bin/ganesha.nfsd", "/usr/sbin/ganesha.nfsd"}},
    {"disks",
     "verbatim disk",
     "nbdkit",
     "the package nbdkit",
     {"/usr/bin/nbdkit", "/usr/sbin/nbdkit"}},
    {"disks' plugin",
     "verbatim disk",
     "its plugin",
     "the package verbatim-nbdkit",
     {"nbdkit-verbatim-plugin.so", nullptr}},
    {"Open vSwitch",
     "verbatim nic ovs",
     "Open vSwitch with DPDK",
     "the package openvswitch-switch-dpdk",
     {"/usr/lib/openvswitch-switch-dpdk/ovs-vswitchd-dpdk", nullptr}},
    {"DPDK driver",
     "verbatim nic ovs",
     "its driver",
     "the package verbatim-nic",
     {"librte_net_verbatim.so", nullptr}},
};

}  // namespace verbatim::cli::doctor

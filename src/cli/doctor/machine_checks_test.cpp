#include <algorithm>
#include <cerrno>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "cli/doctor/check_case_test_util.h"
#include "cli/doctor/checks.h"

namespace verbatim::cli::doctor {
namespace {

constexpr std::uint64_t kKibibyte = 1024;
constexpr std::uint64_t kMebibyte = kKibibyte * kKibibyte;
constexpr std::uint64_t kGibibyte = kMebibyte * kKibibyte;

agent::Interface interface(const char* name, const char* address, bool is_loopback) {
  agent::Interface made{.name = name, .index = is_loopback ? 1u : 2u, .mtu_bytes = 1500};
  made.is_up = true;
  made.is_loopback = is_loopback;
  made.addresses = {SocketAddress::parse(address, kRocePort).value()};
  return made;
}

/// A machine without a fault.
Machine healthy() {
  Machine machine{};
  machine.uid = 1000;
  machine.user = "someone";
  machine.kernel = "6.1.0-18-amd64";
  machine.open_files = 4096;
  machine.open_files_soft = 1024;
  machine.processes = 1000;
  machine.processes_of_user = 100;
  machine.locked_memory = 8 * kMebibyte;
  machine.free_memory_bytes = 8 * kGibibyte;
  machine.shared_memory = {true, true, true, 4 * kGibibyte};
  machine.interfaces = {interface("lo", "127.0.0.1", true), interface("eth0", "192.0.2.1", false)};
  machine.receive_buffer_max = 8388608;
  machine.packet_socket_error = EPERM;  // The normal case for a user.
  machine.tracked_connections = {1000, 10};
  machine.first_free_port = 0;  // As in containers.
  machine.runtime_folder = {.path = "/run/user/1000/verbatim/net-1", .wanted = "/run/user/1000"};
  machine.installation.folder = "/usr/lib/verbatim";
  agent::Node node;
  node.name = "local";
  node.interface = "eth0";
  for (const auto& address : machine.interfaces[1].addresses) node.addresses.push(address);
  node.agent_pid = 50;
  machine.node = node;
  machine.nodes = {{.name = "local",
                    .version = VERBATIM_VERSION,
                    .silence = {},
                    .agent_pid = 50,
                    .programs = {}}};
  machine.trial = {.is_done = true, .has_opened = true, .step = {}, .words = {}};
  return machine;
}

/// A fault or shortcoming, and the expected finding.
using Case = CheckCase<Machine>;

const ServiceNeed* need_of(std::string_view subject) {
  return std::ranges::find(kServiceNeeds, subject, &ServiceNeed::subject);
}

SocketAddress roce(const char* address) { return SocketAddress::parse(address, kRocePort).value(); }

void in_use(Machine& m) {
  m.node = refuse(EADDRINUSE, "127.0.0.1:4791 is in use");
  m.roce_ports = {{roce("0.0.0.0"), 1000, 77, "squatter"}};
}

const std::vector<Case> kInstallation = {
    {"NoLibraries",
     [](Machine& m) { m.installation.folder = refuse(ENOENT, "no libibverbs.so.1"); },
     Verdict::fault, "installation", "no libibverbs.so.1", "./setup.sh"},
    {"NoAgentProgram", [](Machine& m) { m.installation.missing = {"verbatimd"}; }, Verdict::fault,
     "installation", "missing: verbatimd", "./setup.sh"},
    {"MisspeltVariable", [](Machine& m) { m.variables["VERBATIM_NOED"] = "a"; }, Verdict::fault,
     "variables", "VERBATIM_NODE may be meant", "set VERBATIM_NODE"},
    {"LowerCaseVariable", [](Machine& m) { m.variables["verbatim_path"] = "wire"; }, Verdict::fault,
     "variables", "VERBATIM_PATH may be meant", "set VERBATIM_PATH"},
    {"UnknownVariable", [](Machine& m) { m.variables["VERBATIM_DASHBOARD_COLOUR"] = "red"; },
     Verdict::note, "variables", "nothing of Verbatim reads", "verbatim.7"},
    {"PreloadedLibrary", [](Machine& m) { m.variables["LD_PRELOAD"] = "/usr/lib/libibverbs.so.1"; },
     Verdict::fault, "LD_PRELOAD", "before Verbatim's", "take it out"},
    {"RuntimeFolderTaken", [](Machine& m) { m.runtime_folder.path = refuse(EPERM, "is not ours"); },
     Verdict::fault, "runtime folder", "is not ours", "mode 0700"},
    {"RuntimeDirectoryOfAnother",
     [](Machine& m) { m.runtime_folder.path = "/tmp/verbatim-1000/net-1"; }, Verdict::note,
     "runtime folder", "is no folder of user someone", "unset it"},
    {"SquattedName",
     [](Machine& m) { m.runtime_folder = {.path = "/tmp/verbatim-1000.2/net-1", .wanted = {}}; },
     Verdict::note, "runtime folder", "another user has taken", "XDG_RUNTIME_DIR"},
    {"FullRuntimeFolder", [](Machine& m) { m.runtime_folder.free_bytes = 0; }, Verdict::fault,
     "runtime folder", "0 bytes left", "make room"},
};

const std::vector<Case> kKernel = {
    {"OldKernel", [](Machine& m) { m.kernel = "4.18.0-553.el8"; }, Verdict::fault, "kernel",
     "Linux 5.3", "newer kernel"},
    {"KernelBefore5_14", [](Machine& m) { m.kernel = "5.10.0"; }, Verdict::note, "kernel", "5.14",
     "newer kernel"},
    {"PidfdForbidden", [](Machine& m) { m.pidfd_error = EPERM; }, Verdict::fault, "kernel",
     "pidfd_open(2) is refused", "seccomp"},
    {"MemfdForbidden", [](Machine& m) { m.memfd_error = ENOSYS; }, Verdict::fault, "memory sharing",
     "memfd_create(2) is refused", "seccomp"},
    {"PtraceForbidden", [](Machine& m) { m.stop_error = EPERM; }, Verdict::note, "memory sharing",
     "copied by the kernel", "SYS_PTRACE"},
    {"PeerCopyForbidden", [](Machine& m) { m.peer_copy_error = EPERM; }, Verdict::note,
     "peers' memory", "the wire is taken", "SYS_PTRACE"},
    {"PtraceScopeForCapable", [](Machine& m) { m.peer_copy_error = EPERM, m.ptrace_scope = 2; },
     Verdict::note, "peers' memory", "ptrace_scope is 2", "ptrace_scope=1"},
    {"PtraceScopeForNobody", [](Machine& m) { m.peer_copy_error = EPERM, m.ptrace_scope = 3; },
     Verdict::note, "peers' memory", "forbids it to everybody", "next boot"},
    {"DirectPathAskedForInVain",
     [](Machine& m) { m.peer_copy_error = EPERM, m.variables["VERBATIM_PATH"] = "direct"; },
     Verdict::fault, "peers' memory", "does not copy", "SYS_PTRACE"},
};

const std::vector<Case> kLimits = {
    {"AddressSpaceTooSmall", [](Machine& m) { m.address_space = 4 * kGibibyte; }, Verdict::fault,
     "address space", "ulimit -v", "ulimit -v unlimited"},
    {"AddressSpaceForTheWire", [](Machine& m) { m.address_space = 20 * kGibibyte; }, Verdict::note,
     "address space", "take the wire", "ulimit -v unlimited"},
    {"AddressSpaceLimited", [](Machine& m) { m.address_space = 500 * kGibibyte; }, Verdict::note,
     "address space", "500 GiB", "ulimit -v unlimited"},
    {"FileSizeTooSmall", [](Machine& m) { m.file_size = kGibibyte; }, Verdict::fault, "file size",
     "no program can open the device", "ulimit -f unlimited"},
    {"FileSizeOnlyForTheWire", [](Machine& m) { m.file_size = 100 * kGibibyte; }, Verdict::note,
     "file size", "the wire everywhere", "ulimit -f unlimited"},
    {"HardlyAnyDescriptors", [](Machine& m) { m.open_files = 20; }, Verdict::fault, "open files",
     "at most 20", "ulimit -n"},
    {"FewDescriptors", [](Machine& m) { m.open_files = 256; }, Verdict::note, "open files",
     "an agent needs 5", "ulimit -n"},
    {"FewDescriptorsOfPrograms", [](Machine& m) { m.open_files_soft = 32; }, Verdict::note,
     "open files", "programs may have 32", "ulimit -n"},
    {"TooManyProcesses", [](Machine& m) { m.processes_of_user = 998; }, Verdict::fault, "processes",
     "may have 1000", "ulimit -u"},
    {"GroupTasks", [](Machine& m) { m.group_tasks = {100, 99}; }, Verdict::fault, "processes",
     "pids.max", "--pids-limit"},
    {"NoMemory", [](Machine& m) { m.free_memory_bytes = kMebibyte; }, Verdict::fault, "memory",
     "1024 KiB of this machine free", "end some programs"},
    {"LittleMemory", [](Machine& m) { m.free_memory_bytes = 100 * kMebibyte; }, Verdict::note,
     "memory", "100 MiB", "end some programs"},
    {"GroupMemory", [](Machine& m) { m.group_memory = {kGibibyte, kGibibyte}; }, Verdict::fault,
     "memory", "memory.max", "more memory"},
    {"LockedMemoryCounts", [](Machine& m) { m.node->enforces_memlock = true; }, Verdict::note,
     "locked memory", "a program may register 8192 KiB", "memlock = no"},
    {"NoSharedMemoryFolder", [](Machine& m) { m.shared_memory = {}; }, Verdict::note, "/dev/shm",
     "is missing", "mount -t tmpfs"},
    {"SharedMemoryReadOnly", [](Machine& m) { m.shared_memory.is_writable = false; }, Verdict::note,
     "/dev/shm", "may not write", "chmod 1777"},
    {"NoUserNamespaces", [](Machine& m) { m.user_namespace_error = EPERM; }, Verdict::note,
     "clusters", "no namespaces", "max_user_namespaces"},
    {"NoTunForIpoib", [](Machine& m) { m.tun_error = ENOENT; }, Verdict::note, "IPoIB",
     "'verbatim ipoib' is refused", "modprobe tun"},
    {"NoNamespaceForIpoib", [](Machine& m) { m.user_namespace_error = EPERM; }, Verdict::note,
     "IPoIB", "no place for interfaces", "unprivileged_userns_clone"},
    {"OldKernelForIpoib", [](Machine& m) { m.kernel = "6.1.0"; }, Verdict::ok, "IPoIB",
     "need Linux 6.2", ""},
    {"NoTun", [](Machine& m) { m.tun_error = ENOENT; }, Verdict::note, "SmartNIC",
     "/dev/net/tun cannot be opened", "modprobe tun"},
    {"NoNamespaceForTheSmartNic", [](Machine& m) { m.user_namespace_error = EPERM; }, Verdict::note,
     "SmartNIC", "no place for interfaces", "unprivileged_userns_clone"},
    {"LustresPort", [](Machine& m) { m.first_free_port = 1024; }, Verdict::note, "LNet",
     "ports below 1024 are root's", "--port"},
    {"NoNbdkit", [](Machine& m) { m.missing_needs = {need_of("disks")}; }, Verdict::note, "disks",
     "'verbatim disk' is refused: nbdkit is not installed", "package nbdkit"},
    {"NoPlugin", [](Machine& m) { m.missing_needs = {need_of("disks' plugin")}; }, Verdict::note,
     "disks' plugin", "its plugin is not installed", "verbatim-nbdkit"},
    {"NoGanesha", [](Machine& m) { m.missing_needs = {need_of("NFS")}; }, Verdict::note, "NFS",
     "'verbatim nfs serve FOLDER' is refused", "nfs-ganesha-vfs"},
    {"NoTargetcli", [](Machine& m) { m.missing_needs = {need_of("targetcli")}; }, Verdict::note,
     "targetcli", "is refused", "targetcli-fb"},
    {"NoOpenVSwitch", [](Machine& m) { m.missing_needs = {need_of("Open vSwitch")}; },
     Verdict::note, "Open vSwitch", "is refused", "openvswitch-switch-dpdk"},
    {"NoDpdkDriver", [](Machine& m) { m.missing_needs = {need_of("DPDK driver")}; }, Verdict::note,
     "DPDK driver", "is refused", "verbatim-nic"},
    {"SharedMemoryOnDisk", [](Machine& m) { m.shared_memory.is_tmpfs = false; }, Verdict::note,
     "/dev/shm", "no tmpfs", "mount -t tmpfs"},
    {"SharedMemoryOfDocker", [](Machine& m) { m.shared_memory.free_bytes = 64 * kMebibyte; },
     Verdict::note, "/dev/shm", "64 MiB are free", "--shm-size"},
};

const std::vector<Case> kNetwork = {
    {"LoopbackDown", [](Machine& m) { m.interfaces[0].is_up = false; }, Verdict::fault, "loopback",
     "lo is down", "ip link set lo up"},
    {"NothingButLoopback", [](Machine& m) { m.interfaces.pop_back(); }, Verdict::note, "interfaces",
     "no address but the loopback", "nothing if"},
    {"PortTaken", in_use, Verdict::fault, "UDP port 4791", "process 77 (squatter)",
     "end that program"},
    {"PortTakenByKernel",
     [](Machine& m) { in_use(m), m.roce_ports = {{roce("192.0.2.1"), 0, 0, ""}}; }, Verdict::fault,
     "UDP port 4791", "the kernel (rdma_rxe)", "another address"},
    {"PortOfAnotherUser",
     [](Machine& m) { in_use(m), m.roce_ports = {{roce("192.0.2.1"), 1001, 0, ""}}; },
     Verdict::fault, "UDP port 4791", "a program of user 1001", "another address"},
    {"PortTakenElsewhere",
     [](Machine& m) { m.roce_ports = {{roce("127.0.0.9"), 1000, 77, "squatter"}}; }, Verdict::note,
     "UDP port 4791", "127.0.0.9:4791 is taken", "no node this address"},
    {"PortOfPerftest",
     [](Machine& m) {
       m.tcp_ports = {{SocketAddress::ipv4({0, 0, 0, 0}, 18515), 1000, 78, "ib_write_bw"}};
     },
     Verdict::note, "TCP port 18515", "process 78 (ib_write_bw)", "-p"},
    {"RoceV1WithoutRights", [](Machine& m) { m.variables["VERBATIM_ROCE"] = "v1"; }, Verdict::fault,
     "RoCE v1", "CAP_NET_RAW", "unshare -rn"},
    {"RoceV1WithoutNamespaces",
     [](Machine& m) { m.variables["VERBATIM_ROCE"] = "v1", m.user_namespace_error = EPERM; },
     Verdict::fault, "RoCE v1", "CAP_NET_RAW", "no namespaces"},
    {"SmallReceiveBuffer", [](Machine& m) { m.receive_buffer_max = 212992; }, Verdict::note,
     "receive buffer", "208 KiB", "net.core.rmem_max"},
    {"TrackingNearlyFull", [](Machine& m) { m.tracked_connections = {1000, 950}; }, Verdict::note,
     "connection tracking", "950", "nf_conntrack_max"},
    {"TrackingFull", [](Machine& m) { m.tracked_connections = {1000, 1000}; }, Verdict::fault,
     "connection tracking", "drops packets", "nf_conntrack_max"},
};

const std::vector<Case> kNode = {
    {"AgentOfAnotherRelease", [](Machine& m) { m.nodes[0].version = "0.0.1"; }, Verdict::fault,
     "agents", "of release 0.0.1", "verbatim status"},
    {"AgentThatSaysNothing", [](Machine& m) { m.nodes[0].version = ""; }, Verdict::fault, "agents",
     "of release ?", "verbatim status"},
    {"AgentThatDoesNotAnswer", [](Machine& m) { m.nodes[0].silence = "timed out"; }, Verdict::fault,
     "agents", "does not answer: timed out", "kill -CONT"},
    {"NodeRefused", [](Machine& m) { m.node = refuse(EEXIST, "runs with other addresses"); },
     Verdict::fault, "node", "runs with other addresses", "another node"},
    {"PortDown", [](Machine& m) { m.node->network.is_active = false; }, Verdict::fault, "node",
     "which is down", "ip link set eth0 up"},
    {"DeviceDoesNotOpen", [](Machine& m) { m.trial = {true, false, "ibv_open_device", "no room"}; },
     Verdict::fault, "device", "ibv_open_device fails: no room", "faults above"},
    {"WireBecauseOfTheKernel", [](Machine& m) { m.peer_copy_error = EPERM; }, Verdict::note, "path",
     "the wire (UDP port 4791) to every peer", "above"},
    {"WireBecauseOfFileSize", [](Machine& m) { m.file_size = 100 * kGibibyte; }, Verdict::note,
     "path", "ulimit -f", "above"},
    {"WireByWish", [](Machine& m) { m.variables["VERBATIM_PATH"] = "wire"; }, Verdict::ok, "path",
     "because VERBATIM_PATH=wire", ""},
    {"DirectOnly", [](Machine& m) { m.variables["VERBATIM_PATH"] = "direct"; }, Verdict::ok, "path",
     "none (VERBATIM_PATH=direct) to all others", ""},
    {"WireOfIwarp",
     [](Machine& m) {
       m.node->protocol = agent::WireProtocol::iwarp;
       m.variables["VERBATIM_PATH"] = "wire";
     },
     Verdict::ok, "path", "the wire (TCP)", ""},
};

class Check : public ::testing::TestWithParam<Case> {};

TEST_P(Check, SaysWhatIsWrongAndWhatToDo) {
  Machine machine = healthy();
  GetParam().spoil(machine);
  expect_found(GetParam(), check_machine(machine));
}

INSTANTIATE_TEST_SUITE_P(Installation, Check, ::testing::ValuesIn(kInstallation),
                         name_of_case<Machine>);
INSTANTIATE_TEST_SUITE_P(Kernel, Check, ::testing::ValuesIn(kKernel), name_of_case<Machine>);
INSTANTIATE_TEST_SUITE_P(Limits, Check, ::testing::ValuesIn(kLimits), name_of_case<Machine>);
INSTANTIATE_TEST_SUITE_P(Network, Check, ::testing::ValuesIn(kNetwork), name_of_case<Machine>);
INSTANTIATE_TEST_SUITE_P(Node, Check, ::testing::ValuesIn(kNode), name_of_case<Machine>);

TEST(HealthyMachine, HasNothingToComplainOf) {
  for (const Finding& finding : check_machine(healthy())) {
    EXPECT_EQ(finding.verdict, Verdict::ok) << finding.subject << ": " << finding.text;
    EXPECT_EQ(finding.advice, "") << finding.subject;
  }
}

TEST(HealthyMachine, OwnAgentsAndProgramsMayHaveThePort) {
  Machine machine = healthy();
  machine.nodes[0].programs = {60};
  machine.roce_ports = {{roce("192.0.2.1"), 1000, 50, "verbatimd"},
                        {roce("192.0.2.2"), 1000, 60, "ib_write_bw"}};
  EXPECT_EQ(check_roce_port(machine).front().verdict, Verdict::ok);
}

TEST(HealthyMachine, RootsProcessesAreNotCounted) {
  Machine machine = healthy();
  machine.processes_of_user = 2000;
  machine.uid = 0;
  EXPECT_EQ(check_processes(machine).front().verdict, Verdict::ok);
}

}  // namespace
}  // namespace verbatim::cli::doctor

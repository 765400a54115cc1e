#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "cli/doctor/checks.h"

/// Checks of system calls, and what each is needed for.
namespace verbatim::cli::doctor {
namespace {

using Version = std::pair<unsigned, unsigned>;
/// Has pidfd_open(2), by which an agent sees the end of a program.
constexpr Version kOldest{5, 3};
/// MADV_POPULATE_WRITE, without which memory does not move.
constexpr Version kGood{5, 14};
/// TUN_F_USO4: a TUN gives packets of UDP that are to be cut.
constexpr Version kCutsUdp{6, 2};

Version version_of(const std::string& release) {
  Version version{0, 0};
  std::sscanf(release.c_str(), "%u.%u", &version.first, &version.second);
  return version;
}

bool has_namespaces(const Machine& machine) {
  return machine.uid == 0 || machine.user_namespace_error == 0;
}

Finding no_namespaces(const Machine& machine, const char* subject, const char* consequence) {
  return note(subject,
              fmt::format("this user may make no namespaces ({}), so that {}",
                          std::strerror(machine.user_namespace_error), consequence),
              "run it as root, or see sysctl user.max_user_namespaces, "
              "kernel.unprivileged_userns_clone, kernel.apparmor_restrict_unprivileged_userns");
}

Finding no_tun(const Machine& machine, const char* subject, const char* command) {
  return note(
      subject,
      fmt::format("/dev/net/tun cannot be opened ({}), so that '{}' is refused",
                  std::strerror(machine.tun_error), command),
      machine.tun_error == EACCES ? "as root: chmod 666 /dev/net/tun" : "as root: modprobe tun");
}

std::string cause_of_refusal(const Machine& machine) {
  constexpr int kOnlyWithCapability = 2;
  if (machine.ptrace_scope > kOnlyWithCapability) {
    return "kernel.yama.ptrace_scope is 3, which forbids it to everybody";
  }
  if (machine.ptrace_scope == kOnlyWithCapability) {
    return "kernel.yama.ptrace_scope is 2, which forbids it without CAP_SYS_PTRACE";
  }
  return fmt::format("process_vm_readv: {}; a container's seccomp profile may forbid it",
                     std::strerror(machine.peer_copy_error));
}

}  // namespace

Findings check_kernel(const Machine& machine) {
  constexpr const char* kSubject = "kernel";
  const Version version = version_of(machine.kernel);
  const std::string text = "Linux " + machine.kernel;
  if (version < kOldest || machine.pidfd_error != 0) {
    const std::string why = version < kOldest ? ": agents need pidfd_open(2) of Linux 5.3"
                                              : fmt::format(": pidfd_open(2) is refused: {}",
                                                            std::strerror(machine.pidfd_error));
    return {fault(
        kSubject, text + why,
        version < kOldest ? "use a newer kernel" : "allow it in the container's seccomp profile")};
  }
  if (version < kGood) {
    return {note(kSubject,
                 text + ": works; 5.14 and later also share registered memory with peers while "
                        "threads write to it",
                 "use a newer kernel if small requests between programs of one machine must be "
                 "fast")};
  }
  return {ok(kSubject, text)};
}

Findings check_memory_sharing(const Machine& machine) {
  constexpr const char* kSubject = "memory sharing";
  if (machine.memfd_error != 0) {
    return {fault(kSubject,
                  fmt::format("memfd_create(2) is refused: {}", std::strerror(machine.memfd_error)),
                  "allow it in the container's seccomp profile: no program can open the device "
                  "without")};
  }
  if (machine.stop_error != 0) {
    return {
        note(kSubject,
             fmt::format("a program's threads cannot be stopped for a moment ({}): its memory is "
                         "copied by the kernel, not shared; a small request of a peer on this "
                         "machine takes about 2 us longer",
                         std::strerror(machine.stop_error)),
             "allow ptrace(2): docker run --cap-add SYS_PTRACE, or a seccomp profile")};
  }
  return {ok(kSubject, "memory that peers use much can be shared while threads write to it")};
}

Findings check_peer_copy(const Machine& machine) {
  constexpr const char* kSubject = "peers' memory";
  if (machine.peer_copy_error == 0) {
    return {ok(kSubject,
               "the kernel copies between processes of one user, as the direct path "
               "needs it")};
  }
  const std::string text = fmt::format(
      "the kernel does not copy between processes, so that the wire is taken everywhere: {}",
      cause_of_refusal(machine));
  const std::string advice =
      machine.ptrace_scope > 1
          ? "as root: sysctl kernel.yama.ptrace_scope=1 (a 3 stays until the next boot)"
          : "allow process_vm_readv and process_vm_writev: docker run --cap-add SYS_PTRACE, or a "
            "seccomp profile";
  if (variable(machine, "VERBATIM_PATH") == "direct") return {fault(kSubject, text, advice)};
  return {note(kSubject, text, advice)};
}

Findings check_container(const Machine& machine) {
  constexpr const char* kSubject = "container";
  if (machine.container.empty()) return {};
  return {ok(kSubject, fmt::format("{}: other containers are other machines, unless they share the "
                                   "network and process namespaces and the runtime folder",
                                   machine.container))};
}

Findings check_clusters(const Machine& machine) {
  constexpr const char* kSubject = "clusters";
  if (has_namespaces(machine)) {
    return {ok(kSubject, "'verbatim cluster up' may make nodes, each with a network of its own")};
  }
  return {no_namespaces(machine, kSubject, "'verbatim cluster up' is refused")};
}

Findings check_smart_nic(const Machine& machine) {
  constexpr const char* kSubject = "SmartNIC";
  if (machine.tun_error != 0) return {no_tun(machine, kSubject, "verbatim nic")};
  if (!has_namespaces(machine))
    return {no_namespaces(machine, kSubject, "'verbatim nic' has no place for interfaces")};
  return {ok(kSubject, "'verbatim nic' may make interfaces")};
}

Findings check_ipoib(const Machine& machine) {
  constexpr const char* kSubject = "IPoIB";
  if (machine.tun_error != 0) return {no_tun(machine, kSubject, "verbatim ipoib")};
  if (!has_namespaces(machine))
    return {no_namespaces(machine, kSubject, "'verbatim ipoib' has no place for interfaces")};
  const bool cuts_udp = version_of(machine.kernel) >= kCutsUdp;
  return {ok(kSubject, fmt::format("'verbatim ipoib' may make interfaces{}",
                                   cuts_udp ? "" : "; UDP's large packets need Linux 6.2"))};
}

}  // namespace verbatim::cli::doctor

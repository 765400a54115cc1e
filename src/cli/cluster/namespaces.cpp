#include "cli/cluster/namespaces.h"

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "cli/cluster/capabilities.h"
#include "cli/read_all.h"
#include "service/launch.h"

namespace verbatim::cli::cluster {
namespace {

constexpr int kPrefix = 24;
constexpr int kMtu = 9000;  // Jumbo frames, as fabrics of RoCE have them: path MTU 4096.

Result<void> write_file(const std::string& path, const std::string& text) {
  const UniqueFd file(open(path.c_str(), O_WRONLY | O_CLOEXEC));
  if (!file || write(file.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size())) {
    return refuse_errno(path);
  }
  return {};
}

/// A user namespace where this user is who he is outside, with all capabilities.
Result<void> make_user_namespace() {
  const uid_t user = geteuid();
  const gid_t group = getegid();
  if (unshare(CLONE_NEWUSER) != 0) {
    return refuse(EPERM, fmt::format("this user may make no user namespace ({}): 'sudo verbatim "
                                     "cluster up' works, or see the sysctls "
                                     "user.max_user_namespaces, kernel.unprivileged_userns_clone "
                                     "and kernel.apparmor_restrict_unprivileged_userns",
                                     std::strerror(errno)));
  }
  if (auto denied = write_file("/proc/self/setgroups", "deny"); !denied) return denied;
  if (auto map = write_file("/proc/self/uid_map", fmt::format("{0} {0} 1", user)); !map) return map;
  return write_file("/proc/self/gid_map", fmt::format("{0} {0} 1", group));
}

Result<void> show_hosts(const std::string& hosts) {
  if (mount(nullptr, "/", nullptr, MS_REC | MS_SLAVE, nullptr) != 0) return refuse_errno("mount /");
  if (mount(hosts.c_str(), "/etc/hosts", nullptr, MS_BIND, nullptr) != 0) {
    return refuse_errno("mounting /etc/hosts");
  }
  return {};
}

/// Runs `ip -batch` in this network namespace, or in that of a process.
Result<void> run_ip(const std::string& program, const std::string& lines, pid_t where = 0) {
  int in[2], out[2];
  if (pipe2(in, O_CLOEXEC) != 0 || pipe2(out, O_CLOEXEC) != 0) return refuse_errno("pipe");
  const pid_t child = fork();
  if (child < 0) return refuse_errno("fork");
  if (child == 0) {
    if (where != 0) {
      const UniqueFd network(open(fmt::format("/proc/{}/ns/net", where).c_str(), O_RDONLY));
      if (!network || setns(network.get(), CLONE_NEWNET) != 0) _exit(1);
      // Its addresses are its own alone: none has to be asked for.
      static_cast<void>(write_file("/proc/sys/net/ipv6/conf/default/accept_dad", "0"));
      static_cast<void>(write_file("/proc/sys/net/ipv6/conf/eth0/accept_dad", "0"));
    }
    dup2(in[0], STDIN_FILENO);
    dup2(out[1], STDOUT_FILENO);
    dup2(out[1], STDERR_FILENO);
    execl(program.c_str(), "ip", "-batch", "-", nullptr);
    _exit(127);
  }
  close(in[0]);
  close(out[1]);
  UniqueFd writing(in[1]);
  const UniqueFd reading(out[0]);
  [[maybe_unused]] const auto sent = write(writing.get(), lines.data(), lines.size());
  writing.reset();
  const std::string said = read_all(reading.get());
  int status = 0;
  waitpid(child, &status, 0);
  if (status != 0) return refuse(EIO, "ip: " + said.substr(0, said.find('\n')));
  return {};
}

/// Closes all others but input, output and errors: sockets and locks are the service's, not those
/// of its children. Returns its new number.
int only_descriptor(UniqueFd fd) {
  constexpr int kNumber = 3;
  if (fd.get() != kNumber) dup3(fd.get(), kNumber, O_CLOEXEC);
  close_range(kNumber + 1, ~0U, 0);
  static_cast<void>(fd.release());
  return kNumber;
}

/// A process with a network and a host name of its own, which does nothing else.
Result<pid_t> start_holder(const std::string& host_name) {
  int ready[2];
  if (pipe2(ready, O_CLOEXEC) != 0) return refuse_errno("pipe");
  const UniqueFd reading(ready[0]);
  UniqueFd writing(ready[1]);
  const pid_t holder = fork();
  if (holder < 0) return refuse_errno("fork");
  if (holder == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    prctl(PR_SET_NAME, "cluster-node");
    const int report = only_descriptor(std::move(writing));
    const bool is_made = unshare(CLONE_NEWNET | CLONE_NEWUTS) == 0 &&
                         sethostname(host_name.data(), host_name.size()) == 0;
    const int code = is_made ? 0 : errno;
    drop_capabilities();
    [[maybe_unused]] const auto told = write(report, &code, sizeof code);
    if (!is_made) _exit(1);
    for (;;) pause();
  }
  writing.reset();
  int code = EIO;
  if (read(reading.get(), &code, sizeof code) != sizeof code || code != 0) {
    return refuse(code, fmt::format("namespaces of node {}: {}", host_name, std::strerror(code)));
  }
  return holder;
}

Result<std::uint64_t> inode_of(const std::string& path) {
  struct stat info{};
  if (stat(path.c_str(), &info) != 0) return refuse_errno(path);
  return info.st_ino;
}

/// Joins the nodes by cables to a switch, which is in the namespace of this process.
Result<void> connect_nodes(Description& description) {
  const auto ip = service::find_program("ip");
  if (!ip) return refuse(ENOENT, "'ip' is not found: install the package iproute2");
  std::string cables = "link set lo up\nlink add switch type bridge\nlink set switch up\n";
  for (std::size_t i = 0; i < description.nodes.size(); ++i) {
    cables += fmt::format(
        "link add port{0} mtu {1} type veth peer name eth0 mtu {1} netns {2}\n"
        "link set port{0} master switch up\n",
        i + 1, kMtu, description.nodes[i].holder);
  }
  if (auto made = run_ip(*ip, cables); !made) return made;
  for (const Node& node : description.nodes) {
    const auto lines = fmt::format("link set lo up\naddress add {}/{} dev eth0\nlink set eth0 up\n",
                                   node.address, kPrefix);
    if (auto made = run_ip(*ip, lines, node.holder); !made) return made;
  }
  return {};
}

Result<void> make_all(Description& description, const std::string& hosts) {
  if (!has_admin_capability()) {
    if (auto made = make_user_namespace(); !made) return made;
  }
  if (unshare(CLONE_NEWNS | CLONE_NEWNET) != 0) return refuse_errno("unshare");
  keep_across_exec();  // For `ip`.
  if (auto shown = show_hosts(hosts); !shown) return shown;
  for (Node& node : description.nodes) {
    const auto holder = start_holder(node.name);
    if (!holder) return std::unexpected(holder.error());
    node.holder = *holder;
    const auto network = inode_of(fmt::format("/proc/{}/ns/net", node.holder));
    if (!network) return std::unexpected(network.error());
    node.network = *network;
  }
  return connect_nodes(description);
}

/// The process that has made the namespaces, and whose end ends the holders. Tells the description,
/// or why there is none.
[[noreturn]] void keep(Description description, const std::string& hosts, int report) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  prctl(PR_SET_NAME, "cluster-keeper");
  signal(SIGTERM, SIG_DFL);
  const auto made = make_all(description, hosts);
  const nlohmann::json told =
      made ? nlohmann::json(description)
           : nlohmann::json{{"code", made.error().code}, {"error", made.error().text}};
  const std::string text = told.dump();
  [[maybe_unused]] const auto sent = write(report, text.data(), text.size());
  close(report);
  drop_capabilities();
  if (!made) _exit(1);
  for (;;) pause();
}

}  // namespace

Result<Namespaces> Namespaces::create(Description& description, const std::string& hosts) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return refuse_errno("pipe");
  const UniqueFd reading(ends[0]);
  UniqueFd writing(ends[1]);
  const pid_t child = fork();
  if (child < 0) return refuse_errno("fork");
  if (child == 0) {
    const int report = only_descriptor(std::move(writing));
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, nullptr);
    keep(description, hosts, report);
  }
  writing.reset();
  Namespaces made(UniqueFd(static_cast<int>(syscall(SYS_pidfd_open, child, 0))));
  const auto told = nlohmann::json::parse(read_all(reading.get()), nullptr, false);
  if (told.is_discarded()) return refuse(EIO, "the namespaces' keeper has ended");
  if (told.contains("error")) return refuse(told.at("code"), told.at("error"));
  description = told.get<Description>();
  return made;
}

Namespaces::~Namespaces() {
  if (!keeper_) return;
  syscall(SYS_pidfd_send_signal, keeper_.get(), SIGKILL, nullptr, 0);
  siginfo_t ended{};
  while (waitid(P_PIDFD, static_cast<id_t>(keeper_.get()), &ended, WEXITED) < 0 && errno == EINTR) {
  }
}

Result<void> enter(const Node& node) {
  const std::string folder = fmt::format("/proc/{}/ns/", node.holder);
  const auto network = inode_of(folder + "net");
  if (!network || *network != node.network) {
    return refuse(ESRCH,
                  fmt::format("node {} has gone: 'verbatim cluster up' makes it anew", node.name));
  }
  struct Kind {
    const char* name;
    int flag;
  };
  std::vector<std::pair<UniqueFd, Kind>> entered;
  for (const Kind kind : {Kind{"user", CLONE_NEWUSER}, Kind{"mnt", CLONE_NEWNS},
                          Kind{"net", CLONE_NEWNET}, Kind{"uts", CLONE_NEWUTS}}) {
    const auto there = inode_of(folder + kind.name);
    const auto here = inode_of(std::string("/proc/self/ns/") + kind.name);
    if (!there) return std::unexpected(there.error());
    if (here && *here == *there) continue;
    UniqueFd fd(open((folder + kind.name).c_str(), O_RDONLY | O_CLOEXEC));
    if (!fd) return refuse_errno(folder + kind.name);
    entered.emplace_back(std::move(fd), kind);
  }
  std::error_code ignored;
  const auto work = std::filesystem::current_path(ignored);
  for (const auto& [fd, kind] : entered) {
    if (setns(fd.get(), kind.flag) != 0) {
      return refuse_errno(
          fmt::format("entering the {} namespace of node {}", kind.name, node.name));
    }
  }
  std::filesystem::current_path(work, ignored);
  keep_across_exec();  // A program of the node may start others on other nodes.
  return {};
}

}  // namespace verbatim::cli::cluster

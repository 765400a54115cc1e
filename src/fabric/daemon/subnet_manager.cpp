#include "fabric/daemon/subnet_manager.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <vector>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace verbatim::fabric {
namespace {

namespace fs = std::filesystem;

/// What differs from opensm's own defaults: more requests at once, for they take no time here, and
/// a log that is there as soon as it is written.
constexpr const char* kConfiguration =
    "max_wire_smps 64\n"
    "log_flags 0x03\n"
    "force_log_flush TRUE\n"
    "fsync_high_avail_files FALSE\n";

/// Debian puts it where an ordinary user's PATH does not lead.
Result<std::string> find_opensm() {
  const char* const variable = std::getenv("PATH");
  std::string list = fmt::format("{}:/usr/sbin:/sbin", variable != nullptr ? variable : "");
  while (!list.empty()) {
    const std::size_t colon = list.find(':');
    const std::string path = list.substr(0, colon) + "/opensm";
    if (path.starts_with('/') && access(path.c_str(), X_OK) == 0) return path;
    list.erase(0, colon == std::string::npos ? colon : colon + 1);
  }
  return refuse(ENOENT, "opensm is not installed (Debian: package opensm)");
}

/// Where our libibumad.so.3 is: beside an installed daemon, or in the build's tree.
Result<std::string> find_libraries() {
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  for (const char* place : {"../lib/verbatim", "../lib"}) {
    const fs::path folder = (program.parent_path() / place).lexically_normal();
    if (fs::exists(folder / "libibumad.so.3", error)) return folder.string();
  }
  return refuse(ENOENT,
                fmt::format("there is no libibumad.so.3 of ours near {}", program.string()));
}

Result<void> write_file(const std::string& path, const std::string& text) {
  std::ofstream file(path);
  file << text;
  file.close();
  if (!file) return refuse_errno("cannot write " + path);
  return {};
}

/// Writes what opensm is to do into the folder. Returns the path of its configuration.
Result<std::string> configure(const std::string& folder, const SubnetPlan& subnet) {
  const std::string routes = folder + "/prefix-routes.conf";
  std::string lines;
  for (const SubnetPlan::Route& route : subnet.routes) {
    lines += fmt::format("{:#018x} {:#018x}\n", route.gid_prefix, route.router_guid);
  }
  if (auto written = write_file(routes, lines); !written) return std::unexpected(written.error());
  std::string path = folder + "/opensm.conf";
  const auto written = write_file(
      path, fmt::format("{}dump_files_dir {}\nsubnet_prefix {:#x}\nprefix_routes_file {}\n",
                        kConfiguration, folder, subnet.gid_prefix, routes));
  if (!written) return std::unexpected(written.error());
  return path;
}

/// The daemon's environment with these variables.
std::vector<std::string> environment_with(const std::vector<std::string>& variables) {
  std::vector<std::string> all = variables;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const auto name = text.substr(0, text.find('=') + 1);
    const bool is_replaced = std::ranges::any_of(
        variables, [&](const std::string& variable) { return variable.starts_with(name); });
    if (!is_replaced) all.emplace_back(text);
  }
  return all;
}

std::vector<char*> pointers_to(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

[[noreturn]] void become(const std::string& program, std::vector<std::string>& arguments,
                         std::vector<std::string>& environment, const std::string& working_folder,
                         int output) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  if (const int null = open("/dev/null", O_RDONLY | O_CLOEXEC); null >= 0) {
    dup2(null, STDIN_FILENO);
  }
  dup2(output, STDOUT_FILENO);
  dup2(output, STDERR_FILENO);
  if (chdir(working_folder.c_str()) != 0) _exit(127);
  execve(program.c_str(), pointers_to(arguments).data(), pointers_to(environment).data());
  _exit(127);
}

}  // namespace

Result<SubnetManager> SubnetManager::start(const Place& place, const SubnetPlan& subnet,
                                           const std::vector<std::string>& options,
                                           const std::string& working_folder) {
  const auto program = find_opensm();
  if (!program) return std::unexpected(program.error());
  const auto libraries = find_libraries();
  if (!libraries) return std::unexpected(libraries.error());
  const std::string& own = place.folder;
  std::error_code error;
  fs::remove_all(own, error);
  fs::create_directories(own, error);
  const auto configuration = configure(own, subnet);
  if (!configuration) return std::unexpected(configuration.error());
  const UniqueFd output(open((own + "/output").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  if (error || !output) return refuse_errno("cannot write into " + own);
  std::vector<std::string> arguments{*program,
                                     "-F",
                                     *configuration,
                                     "-f",
                                     own + "/log",
                                     "-g",
                                     fmt::format("{:#x}", place.port_guid)};
  arguments.insert(arguments.end(), options.begin(), options.end());
  auto environment =
      environment_with({"LD_LIBRARY_PATH=" + *libraries, "VERBATIM_FABRIC=" + place.fabric,
                        fmt::format("VERBATIM_HOST={:#x}", place.host_guid), "OSM_CACHE_DIR=" + own,
                        "OSM_TMP_DIR=" + own});
  SubnetManager manager;
  manager.place_ = place;
  manager.pid_ = fork();
  if (manager.pid_ < 0) return refuse_errno("cannot start opensm");
  if (manager.pid_ == 0) {
    become(*program, arguments, environment, working_folder, output.get());
  }
  manager.pidfd_.reset(static_cast<int>(syscall(SYS_pidfd_open, manager.pid_, 0)));
  if (!manager.pidfd_) return refuse_errno("cannot watch opensm");
  return manager;
}

void SubnetManager::stop(bool with_patience) const {
  kill(pid_, with_patience ? SIGTERM : SIGKILL);
}

void SubnetManager::take_exit_status() {
  int status = 0;
  waitpid(pid_, &status, 0);
  pidfd_.reset();
  exit_status_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace verbatim::fabric

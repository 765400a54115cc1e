#include "cli/cluster/programs.h"

#include <algorithm>
#include <charconv>
#include <csignal>
#include <filesystem>
#include <vector>

#include <sys/stat.h>

namespace verbatim::cli::cluster {
namespace {

std::vector<pid_t> programs_of(const Description& description) {
  std::vector<pid_t> found;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", error)) {
    const std::string name = entry.path().filename();
    pid_t process = 0;
    const auto [end, fault] = std::from_chars(name.data(), name.data() + name.size(), process);
    if (fault != std::errc{} || end != name.data() + name.size()) continue;
    struct stat info{};
    if (stat((entry.path() / "ns/net").c_str(), &info) != 0) continue;
    const auto is_of = [&](const Node& node) {
      return node.network == info.st_ino && node.holder != process;
    };
    if (std::ranges::any_of(description.nodes, is_of)) found.push_back(process);
  }
  return found;
}

}  // namespace

std::size_t count_programs(const Description& description) {
  return programs_of(description).size();
}

void signal_programs(const Description& description, int signal) {
  for (const pid_t process : programs_of(description)) kill(process, signal);
}

}  // namespace verbatim::cli::cluster

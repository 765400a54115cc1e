#include "service/launch.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <string_view>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/os/unique_fd.h"
#include "service/readiness.h"

namespace verbatim::service {
namespace {

namespace fs = std::filesystem;

constexpr int kReadyFd = 3;

bool is_executable(const fs::path& path) {
  return access(path.c_str(), X_OK) == 0 && fs::is_regular_file(path);
}

std::vector<std::string> folders_of_path() {
  std::vector<std::string> folders;
  const char* const variable = secure_getenv("PATH");
  std::string_view list = variable != nullptr ? variable : "";
  while (!list.empty()) {
    const std::size_t colon = list.find(':');
    folders.emplace_back(list.substr(0, colon));
    list.remove_prefix(colon == std::string_view::npos ? list.size() : colon + 1);
  }
  return folders;
}

std::vector<char*> pointers_to(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

/// Above the numbers that the child uses.
UniqueFd moved_up(int fd) {
  const UniqueFd low(fd);
  return UniqueFd(fcntl(fd, F_DUPFD_CLOEXEC, kReadyFd + 1));
}

/// In the child: nothing here allocates.
[[noreturn]] void become(const char* program, char** arguments, char** environment, int ready,
                         int log) {
  setsid();
  if (fork() != 0) _exit(0);
  umask(022);  // The caller's may forbid the daemon its own files.
  const int null = open("/dev/null", O_RDWR);
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO}) dup2(null, fd);
  dup2(log, STDERR_FILENO);
  dup2(ready, kReadyFd);
  close_range(kReadyFd + 1, ~0U, 0);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  execve(program, arguments, environment);
  dprintf(kReadyFd, "%d cannot start %s", errno, program);
  _exit(1);
}

/// As `become`, of a program that nobody waits for.
[[noreturn]] void become_apart(const char* program, char** arguments, char** environment) {
  setsid();
  if (fork() != 0) _exit(0);
  umask(022);
  dup2(open("/dev/null", O_RDWR), STDIN_FILENO);
  close_range(STDERR_FILENO + 1, ~0U, 0);
  for (const int number : {SIGHUP, SIGPIPE}) signal(number, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  execve(program, arguments, environment);
  _exit(1);
}

/// The variables that are set in addition, then the others of this process.
std::vector<std::string> environment_of(const Launch& launch) {
  std::vector<std::string> environment;
  for (const auto& [name, value] : launch.environment) environment.push_back(name + "=" + value);
  for (char** one = environ; *one != nullptr; ++one) {
    const std::string_view entry = *one;
    const bool is_set = std::ranges::any_of(launch.environment, [entry](const auto& set) {
      return entry.starts_with(set.first + "=");
    });
    if (!is_set) environment.emplace_back(entry);
  }
  return environment;
}

void wait_for(pid_t child) {
  while (waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
  }
}

/// What a daemon, and the libraries in it, have logged until it served: often the cause of its
/// error.
void pass_on(int log) {
  std::array<char, 4096> part;
  for (ssize_t length; (length = read(log, part.data(), part.size())) > 0;) {
    if (write(STDERR_FILENO, part.data(), static_cast<std::size_t>(length)) < 0) return;
  }
}

}  // namespace

Result<std::string> find_program(const std::string& name) {
  std::error_code error;
  const fs::path own = fs::read_symlink("/proc/self/exe", error).parent_path();
  std::string looked_at;
  // build/bin, and lib/verbatim of an installation.
  for (const char* const place : {"", "../bin", "../../bin"}) {
    const fs::path path = (own / place / name).lexically_normal();
    if (is_executable(path)) return path.string();
    looked_at += path.string() + ", ";
  }
  for (const std::string& folder : folders_of_path()) {
    const fs::path path = fs::path(folder) / name;
    if (path.is_absolute() && is_executable(path)) return path.string();
  }
  return refuse(ENOENT, fmt::format("{} is not found: looked at {}and in PATH", name, looked_at));
}

Result<void> start_apart(const Launch& launch) {
  std::vector<std::string> arguments = launch.arguments, environment = environment_of(launch);
  arguments.insert(arguments.begin(), launch.program);
  const auto argument_pointers = pointers_to(arguments);
  const auto environment_pointers = pointers_to(environment);
  const pid_t child = fork();
  if (child < 0) return refuse_errno("fork");
  if (child == 0) {
    become_apart(launch.program.c_str(), const_cast<char**>(argument_pointers.data()),
                 const_cast<char**>(environment_pointers.data()));
  }
  wait_for(child);
  return {};
}

Result<void> start_daemon(const Launch& launch) {
  std::vector<std::string> arguments = launch.arguments;
  arguments.insert(arguments.begin(), launch.program);
  arguments.insert(arguments.end(), {"--ready-fd", std::to_string(kReadyFd)});
  std::vector<std::string> environment = environment_of(launch);
  const auto argument_pointers = pointers_to(arguments);
  const auto environment_pointers = pointers_to(environment);
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return refuse_errno("pipe");
  const UniqueFd reading(ends[0]);
  UniqueFd writing = moved_up(ends[1]);
  // Neither side waits for the other: lines that have no room are lost.
  if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) return refuse_errno("pipe");
  const UniqueFd log(ends[0]);
  UniqueFd logging = moved_up(ends[1]);
  if (!writing || !logging) return refuse_errno("pipe");
  const pid_t child = fork();
  if (child < 0) return refuse_errno("fork");
  if (child == 0) {
    become(launch.program.c_str(), const_cast<char**>(argument_pointers.data()),
           const_cast<char**>(environment_pointers.data()), writing.get(), logging.get());
  }
  writing.reset();
  logging.reset();
  wait_for(child);
  auto ready = wait_until_ready(reading.get(), launch.program, launch.patience);
  pass_on(log.get());
  return ready;
}

}  // namespace verbatim::service

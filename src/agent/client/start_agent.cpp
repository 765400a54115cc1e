#include "agent/client/start_agent.h"

#include <cstdlib>
#include <filesystem>
#include <string_view>

#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/protocol/protocol.h"

/// The C library's clone under its other name. Sanitizers replace the first name, and assume that
/// the child has a copy of their state, which is not the case here.
extern "C" int __clone(int (*run)(void*), void* stack_top, int flags, void* argument, ...);

namespace verbatim::agent {
namespace {

namespace fs = std::filesystem;

constexpr int kReadyTimeoutMs = 10'000;
constexpr std::size_t kStackBytes = 64 << 10;

/// Returns the folders of the shared library and of the program that contain this code.
std::vector<fs::path> own_folders() {
  std::vector<fs::path> folders;
  std::error_code error;
  Dl_info info{};
  if (dladdr(reinterpret_cast<const void*>(&find_agent_program), &info) != 0 &&
      std::string_view(info.dli_fname).contains('/')) {
    const fs::path library = fs::canonical(info.dli_fname, error);
    if (!error) folders.push_back(library.parent_path());
  }
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  if (!error) folders.push_back(program.parent_path());
  return folders;
}

bool is_executable(const fs::path& path) {
  std::error_code error;
  return fs::is_regular_file(path, error) && access(path.c_str(), X_OK) == 0;
}

/// Returns the agent's environment: the variables that it reads, without the host program's
/// preloads and secrets.
std::vector<std::string> agent_environment() {
  std::vector<std::string> kept;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view variable(*entry);
    const std::string_view name = variable.substr(0, variable.find('='));
    if (name == "XDG_RUNTIME_DIR" || name == "XDG_CONFIG_HOME" || name == "HOME" ||
        name.starts_with("VERBATIM_") || name.ends_with("SAN_OPTIONS")) {
      kept.emplace_back(variable);
    }
  }
  return kept;
}

std::vector<char*> pointers_to(std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  for (auto& string : strings) pointers.push_back(string.data());
  pointers.push_back(nullptr);
  return pointers;
}

/// Data of the two cloned processes, which share this memory until the agent is executed.
struct Launch {
  const char* program;
  char* const* arguments;
  char* const* environment;
  int null_fd;
  int ready_fd;
  char* second_stack_top;
  int host_pidfd;  // Of the keeper's parent; -1: no keeper.
  int error = 0;
};

// The following two functions run in the memory of the host program, which may have any number of
// threads: only system calls, and no code that a sanitizer instruments.
#define VERBATIM_IN_CLONE __attribute__((no_sanitize("address", "thread", "undefined"), noinline))

VERBATIM_IN_CLONE int become_agent(void* argument) {
  auto& launch = *static_cast<Launch*>(argument);
  for (const int standard : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    syscall(SYS_dup3, launch.null_fd, standard, 0);
  }
  syscall(SYS_dup3, launch.ready_fd, kReadyFd, 0);
  constexpr int kFirstUnwanted = kReadyFd + 1;
  if (syscall(SYS_close_range, kFirstUnwanted, ~0u, 0) != 0) {  // ENOSYS before Linux 5.9.
    constexpr int kHighestLikely = 65'536;
    for (int fd = kFirstUnwanted; fd < kHighestLikely; ++fd) syscall(SYS_close, fd);
  }
  syscall(SYS_chdir, "/");
  syscall(SYS_umask, 022);  // The host program's may forbid the agent its own files.
  const std::uint64_t no_signals = 0;
  syscall(SYS_rt_sigprocmask, SIG_SETMASK, &no_signals, nullptr, sizeof no_signals);
  syscall(SYS_execve, launch.program, launch.arguments, launch.environment);
  launch.error = errno;
  syscall(SYS_exit_group, 1);
  __builtin_unreachable();
}

VERBATIM_IN_CLONE int leave_family(void* argument) {
  auto& launch = *static_cast<Launch*>(argument);
  syscall(SYS_setsid);
  // CLONE_VFORK: returns when the agent was executed, or that has failed.
  if (__clone(become_agent, launch.second_stack_top, CLONE_VM | CLONE_VFORK, argument) < 0) {
    launch.error = errno;
  }
  syscall(SYS_exit_group, 0);
  __builtin_unreachable();
}

std::string cannot_start(const std::string& program, int error) {
  const char* const advice =
      error == EAGAIN ? " (ulimit -u, or a limit of the container's tasks)" : "";
  return fmt::format("cannot start {}: {}{}", program, std::strerror(error), advice);
}

/// The agent's parent while the host program lives, if orphans become children of that program: it
/// has no exit signal, so the program's waits for any child do not see it. It executes nothing,
/// since execve(2) would give it an exit signal. No stack protector: the thread whose storage has
/// its value may end before.
VERBATIM_IN_CLONE __attribute__((no_stack_protector)) int keep_agent(void* argument) {
  auto& launch = *static_cast<Launch*>(argument);
  const int host_pidfd = launch.host_pidfd;
  syscall(SYS_setsid);
  syscall(SYS_prctl, PR_SET_NAME, "verbatim-keeper");
  const int agent =
      __clone(become_agent, launch.second_stack_top, CLONE_VM | CLONE_VFORK | SIGCHLD, argument);
  if (agent < 0) launch.error = errno;
  for (const int standard : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    syscall(SYS_dup3, launch.null_fd, standard, 0);
  }
  const long agent_pidfd = agent > 0 ? syscall(SYS_pidfd_open, agent, 0) : -1;
  syscall(SYS_dup3, host_pidfd, STDIN_FILENO, 0);
  if (agent_pidfd >= 0) syscall(SYS_dup3, agent_pidfd, STDOUT_FILENO, 0);
  // The ready pipe ends here: the host program goes on, and `launch` is gone.
  syscall(SYS_close_range, STDERR_FILENO + 1, ~0u, 0);
  pollfd ends[] = {{STDIN_FILENO, POLLIN, 0}, {STDOUT_FILENO, POLLIN, 0}};
  if (agent_pidfd >= 0) syscall(SYS_ppoll, ends, 2, nullptr, nullptr, 0);
  if (agent > 0) syscall(SYS_wait4, agent, nullptr, WNOHANG, nullptr);
  syscall(SYS_exit_group, 0);
  __builtin_unreachable();
}

/// Returns a descriptor of this process if it gets the orphans of others as its children: process
/// 1 of a container, or a subreaper. Otherwise, and before Linux 5.9, -1.
UniqueFd pidfd_of_reaper() {
  int is_subreaper = 0;
  prctl(PR_GET_CHILD_SUBREAPER, &is_subreaper);
  if (getpid() != 1 && is_subreaper == 0) return {};
  if (syscall(SYS_close_range, ~0u, ~0u, 0) != 0) return {};
  return UniqueFd(static_cast<int>(syscall(SYS_pidfd_open, getpid(), 0)));
}

/// The memory of the cloned processes: a stack for each, below the launch.
class LaunchMemory {
 public:
  LaunchMemory()
      : stacks_(mmap(nullptr, 2 * kStackBytes, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0)) {}
  ~LaunchMemory() {
    if (stacks_ != MAP_FAILED && !is_kept_) munmap(stacks_, 2 * kStackBytes);
  }
  LaunchMemory(const LaunchMemory&) = delete;
  LaunchMemory& operator=(const LaunchMemory&) = delete;
  explicit operator bool() const { return stacks_ != MAP_FAILED; }
  char* first_top() const { return static_cast<char*>(stacks_) + kStackBytes; }
  char* second_top() const { return first_top() + kStackBytes; }
  /// A process that lives on uses it.
  void keep() { is_kept_ = true; }

 private:
  void* stacks_;
  bool is_kept_ = false;
};

/// The keeper lives on, in this memory. Returns its process, or -1.
int clone_keeper(Launch& launch, LaunchMemory& memory) {
  if (launch.host_pidfd < 0) return -1;
  const int keeper = __clone(keep_agent, memory.first_top(), CLONE_VM | CLONE_UNTRACED, &launch);
  if (keeper > 0) memory.keep();
  return keeper;
}

/// Executes the agent as a grandchild. The process in between has no exit signal, so the host
/// program's SIGCHLD handler, and its waits for any child, do not see it.
Result<void> launch_agent(Launch& launch) {
  LaunchMemory memory;
  if (!memory) return refuse_errno("no memory to start the agent");
  launch.second_stack_top = memory.second_top();

  // No signal handler of the host program may run in the children, which share its memory.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, &before);
  int error = 0;
  if (clone_keeper(launch, memory) < 0) {
    const int child = __clone(leave_family, memory.first_top(), CLONE_VM | CLONE_VFORK, &launch);
    error = child < 0 ? errno : 0;
    while (child > 0 && waitpid(child, nullptr, __WCLONE) < 0 && errno == EINTR) {
    }
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (error == 0) return {};
  return refuse(error, cannot_start(launch.program, error));
}

/// Duplicates a descriptor to a number that the new process does not use otherwise: a program may
/// have closed its standard descriptors.
UniqueFd above_standard(UniqueFd fd) {
  return UniqueFd(fcntl(fd.get(), F_DUPFD_CLOEXEC, kReadyFd + 1));
}

/// Waits for the end of the ready pipe.
Result<void> wait_until_ready(int pipe, const std::string& program) {
  StartFailure failure;
  std::size_t length = 0;
  for (;;) {
    pollfd waiting{pipe, POLLIN, 0};
    const int count = poll(&waiting, 1, kReadyTimeoutMs);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return refuse(ETIMEDOUT, program + " did not become ready in time");
    const auto got =
        read(pipe, reinterpret_cast<char*>(&failure) + length, sizeof failure - length);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    length += static_cast<std::size_t>(got);
  }
  if (length < sizeof failure) return {};
  return refuse(failure.code, get_text(failure.text));
}

std::vector<std::string> arguments_for(const AgentOptions& options) {
  std::vector<std::string> arguments{"--node", options.node};
  for (const config::Setting& setting : options.settings()) {
    arguments.insert(arguments.end(), {"--" + setting.key, setting.value});
  }
  return arguments;
}

}  // namespace

Result<std::string> find_agent_program(const AgentOptions& options) {
  if (!options.agent_program.empty()) {
    if (is_executable(options.agent_program)) return fs::absolute(options.agent_program).string();
    return refuse(ENOENT, fmt::format("VERBATIMD: there is no program {}", options.agent_program));
  }
  std::string looked_at;
  for (const fs::path& folder : own_folders()) {
    // build/bin, build/lib, and lib/verbatim of an installation.
    for (const char* place : {"verbatimd", "../bin/verbatimd", "../../bin/verbatimd"}) {
      const fs::path path = (folder / place).lexically_normal();
      if (is_executable(path)) return path.string();
      looked_at += path.string() + ", ";
    }
  }
  const char* path_variable = secure_getenv("PATH");
  std::string_view list = path_variable != nullptr ? path_variable : "";
  while (!list.empty()) {
    const std::size_t colon = list.find(':');
    const fs::path path = fs::path(list.substr(0, colon)) / "verbatimd";
    if (path.is_absolute() && is_executable(path)) return path.string();
    list.remove_prefix(colon == std::string_view::npos ? list.size() : colon + 1);
  }
  return refuse(ENOENT,
                fmt::format("verbatimd is not found: looked at {}and in PATH; set VERBATIMD "
                            "to its path",
                            looked_at));
}

Result<void> start_agent(const AgentOptions& options) {
  auto program = find_agent_program(options);
  if (!program) return std::unexpected(program.error());
  std::vector<std::string> arguments = arguments_for(options);
  arguments.insert(arguments.begin(), *program);
  arguments.insert(arguments.end(), {"--ready-fd", std::to_string(kReadyFd)});
  std::vector<std::string> environment = agent_environment();

  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return refuse_errno("pipe");
  const UniqueFd reading(ends[0]);
  UniqueFd writing = above_standard(UniqueFd(ends[1]));
  const UniqueFd null = above_standard(UniqueFd(open("/dev/null", O_RDWR | O_CLOEXEC)));
  if (!null || !writing) return refuse_errno("/dev/null");

  const UniqueFd host = above_standard(pidfd_of_reaper());
  const auto argument_pointers = pointers_to(arguments);
  const auto environment_pointers = pointers_to(environment);
  Launch launch{.program = program->c_str(),
                .arguments = argument_pointers.data(),
                .environment = environment_pointers.data(),
                .null_fd = null.get(),
                .ready_fd = writing.get(),
                .second_stack_top = nullptr,
                .host_pidfd = host.get()};
  auto launched = launch_agent(launch);
  writing.reset();
  if (!launched) return launched;
  auto ready = wait_until_ready(reading.get(), *program);
  if (launch.error != 0) return refuse(launch.error, cannot_start(*program, launch.error));
  return ready;
}

}  // namespace verbatim::agent

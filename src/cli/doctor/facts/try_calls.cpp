#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>

#include <dlfcn.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/os/unique_fd.h"
#include "cli/doctor/facts/machine.h"
#include "cli/read_all.h"
#include "region/adoption/run_alone.h"

/// Tries system calls, because a container may forbid any of them. Those that change this process,
/// or need a second one, are tried in a child.
namespace verbatim::cli::doctor {
namespace {

/// Returns the exit status of a child that runs `call`; EIO if it was killed.
template <typename Call>
int in_child(Call call) {
  const pid_t child = fork();
  if (child < 0) return errno;
  if (child == 0) _exit(call());
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : EIO;
}

int error_of(const UniqueFd& fd) { return fd ? 0 : errno; }

/// A child reads its parent, because a peer is no ancestor of the process that it reads.
int try_peer_copy() {
  static const std::uint64_t kThere = 4791;
  prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
  const pid_t parent = getpid();
  return in_child([parent] {
    std::uint64_t here = 0;
    const iovec local{&here, sizeof here};
    const iovec remote{const_cast<std::uint64_t*>(&kThere), sizeof kThere};
    const bool is_copied = process_vm_readv(parent, &local, 1, &remote, 1, 0) == sizeof here;
    return is_copied ? 0 : errno;
  });
}

/// As memory that moves needs it.
int try_to_stop_threads() {
  const auto stopped = region::run_alone([](void*) { return 0L; }, nullptr);
  return stopped ? 0 : stopped.error().code;
}

/// The drop-in's functions, found at run time: this program is not linked to it.
struct Verbs {
  void* library;
  void* find(const char* name) const { return dlsym(library, name); }
  template <typename Function>
  Function* get(const char* name) const {
    return reinterpret_cast<Function*>(find(name));
  }
};

/// The first steps of a program. Exits with the number of the step that failed, or 0.
constexpr std::array<const char*, 6> kSteps{"",
                                            "loading libibverbs.so.1",
                                            "ibv_get_device_list",
                                            "ibv_open_device",
                                            "ibv_alloc_pd",
                                            "ibv_reg_mr"};

int use_device(const std::string& path) {
  const Verbs verbs{dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)};
  if (verbs.library == nullptr) {
    const char* const words = dlerror();
    [[maybe_unused]] const auto written = write(STDERR_FILENO, words, std::strlen(words));
    return 1;
  }
  int count = 0;
  auto* const list = verbs.get<void**(int*)>("ibv_get_device_list")(&count);
  if (list == nullptr || count == 0) return 2;
  void* const context = verbs.get<void*(void*)>("ibv_open_device")(list[0]);
  if (context == nullptr) return 3;
  void* const domain = verbs.get<void*(void*)>("ibv_alloc_pd")(context);
  if (domain == nullptr) return 4;
  static std::array<char, 64> memory;
  constexpr int kLocalWrite = 1;
  void* const region = verbs.get<void*(void*, void*, std::size_t, int)>("ibv_reg_mr")(
      domain, memory.data(), memory.size(), kLocalWrite);
  return region == nullptr ? 5 : 0;
}

/// Returns the text in one line, without the log's prefixes.
std::string as_sentence(std::string text) {
  for (const char* mark : {"verbatim: error: ", "verbatim: warn: "}) {
    for (std::size_t at; (at = text.find(mark)) != std::string::npos;) {
      text.erase(at, std::strlen(mark));
    }
  }
  while (text.ends_with('\n')) text.pop_back();
  for (std::size_t at; (at = text.find('\n')) != std::string::npos;) text.replace(at, 1, "; ");
  return text;
}

}  // namespace

void try_system_calls(Machine& machine) {
  machine.memfd_error = error_of(UniqueFd(memfd_create("verbatim-doctor", MFD_CLOEXEC)));
  machine.pidfd_error = error_of(UniqueFd(static_cast<int>(syscall(SYS_pidfd_open, getpid(), 0))));
  machine.stop_error = try_to_stop_threads();
  machine.peer_copy_error = try_peer_copy();
  machine.packet_socket_error = error_of(UniqueFd(socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0)));
  machine.tun_error = error_of(UniqueFd(open("/dev/net/tun", O_RDWR | O_CLOEXEC)));
  machine.user_namespace_error =
      in_child([] { return unshare(CLONE_NEWUSER | CLONE_NEWNET) == 0 ? 0 : errno; });
}

Trial try_device(const std::string& dropin_folder) {
  constexpr unsigned kSecondsMax = 30;
  int ends[2];
  Trial trial;
  if (pipe2(ends, O_CLOEXEC) != 0) return trial;
  const UniqueFd reading(ends[0]);
  UniqueFd writing(ends[1]);
  const pid_t child = fork();
  if (child < 0) return trial;
  if (child == 0) {
    alarm(kSecondsMax);
    dup2(writing.get(), STDERR_FILENO);
    _exit(use_device(dropin_folder + "/libibverbs.so.1"));
  }
  writing.reset();
  trial.words = as_sentence(read_all(reading.get()));
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  trial.is_done = true;
  const auto step = WIFEXITED(status) ? static_cast<std::size_t>(WEXITSTATUS(status)) : ~0uz;
  trial.has_opened = step == 0;
  trial.step = step < kSteps.size() ? kSteps[step] : "opening the device (it was killed)";
  return trial;
}

}  // namespace verbatim::cli::doctor

#include "ulp/rpcrdma/gateway/ganesha.h"

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <thread>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"
#include "service/folder.h"

namespace verbatim::ulp::rpcrdma {
namespace {

namespace fs = std::filesystem;

constexpr const char* kPrograms[] = {"/usr/bin/ganesha.nfsd", "/usr/sbin/ganesha.nfsd"};
constexpr const char* kPreload = "libverbatim-handles.so";
constexpr auto kPatience = std::chrono::seconds(8);
constexpr useconds_t kRestartPauseUs = 300'000;  // One that cannot start must not spin.
constexpr auto kPause = std::chrono::milliseconds(20);

/// `{0}` port, `{1}` folder for its state, `{2}` the exported folder, `{3}` whether it has no
/// privileges.
constexpr const char* kConfiguration = R"(
NFS_CORE_PARAM {{ NFS_Port = {0}; Protocols = 4; Bind_addr = 127.0.0.1; Enable_NLM = false;
  Enable_RQUOTA = false; Enable_UDP = false; mount_path_pseudo = true; }}
NFSv4 {{ RecoveryBackend = fs; RecoveryRoot = "{1}"; Minor_Versions = 0,1,2; Graceless = true;
  Allow_Numeric_Owners = true; Only_Numeric_Owners = true; }}
EXPORT_DEFAULTS {{ Protocols = 4; Transports = TCP; SecType = sys; Squash = None; }}
EXPORT {{ Export_Id = 1; Path = "{2}"; Pseudo = /; Access_Type = RW; MaxRead = 1048576;
  MaxWrite = 1048576; FSAL {{ Name = VFS; }} }}
VFS {{ only_one_user = {3}; }}
LOG {{ Default_Log_Level = WARN; }}
)";

/// A port of 127.0.0.1 that nobody has now.
Result<SocketAddress> free_address() {
  const auto any = SocketAddress::ipv4({127, 0, 0, 1}, 0);
  const UniqueFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket || bind(socket.get(), any.data(), any.size()) != 0)
    return refuse_errno("a port for nfs-ganesha");
  return SocketAddress::of_socket(socket.get());
}

bool listens(const SocketAddress& address) {
  const UniqueFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  return connect(socket.get(), address.data(), address.size()) == 0;
}

/// Our library lies in a build's `lib`, or in an installation's `lib/verbatim`.
std::string find_library() {
  std::error_code error;
  const fs::path prefix = fs::read_symlink("/proc/self/exe", error).parent_path().parent_path();
  for (const char* const folder : {"lib/verbatim", "lib"}) {
    const fs::path path = prefix / folder / kPreload;
    if (fs::exists(path, error)) return path;
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<Ganesha>> Ganesha::start(const Options& options, service::Loop& loop) {
  std::unique_ptr<Ganesha> server(new Ganesha(options, loop));
  if (auto found = server->find(); !found) return std::unexpected(found.error());
  if (auto written = server->write_configuration(); !written)
    return std::unexpected(written.error());
  if (auto spawned = server->spawn(); !spawned) return std::unexpected(spawned.error());
  if (auto listening = server->wait_until_it_listens(); !listening)
    return std::unexpected(listening.error());
  return server;
}

Result<void> Ganesha::find() {
  std::error_code error;
  if (!fs::is_directory(options_.folder, error) || options_.folder.find('"') != std::string::npos)
    return refuse(ENOENT, fmt::format("'{}' is no folder that can be served", options_.folder));
  for (const char* const path : kPrograms) {
    if (access(path, X_OK) == 0) program_ = path;
  }
  if (program_.empty())
    return refuse(ENOENT,
                  "nfs-ganesha is not installed: install Debian's packages nfs-ganesha and "
                  "nfs-ganesha-vfs, or name another NFS server with --to");
  library_ = find_library();
  return library_.empty() ? refuse(ENOENT, fmt::format("no {} in the installation", kPreload))
                          : Result<void>();
}

Result<void> Ganesha::write_configuration() {
  const auto runtime = service::RuntimeFolder::open();
  if (!runtime) return std::unexpected(runtime.error());
  state_ = fmt::format("{}/ulp+nfs-serve+{}.state", runtime->path(), options_.name);
  std::error_code error;
  fs::create_directory(state_, error);
  if (error) return refuse(error.value(), fmt::format("{}: {}", state_, error.message()));
  const auto address = free_address();
  if (!address) return std::unexpected(address.error());
  address_ = *address;
  std::ofstream(state_ + "/ganesha.conf") << fmt::format(
      kConfiguration, address_.port(), state_, options_.folder, geteuid() == 0 ? "false" : "true");
  return {};
}

/// The child ends with this process, and has none of our libraries but the one for it.
Result<void> Ganesha::spawn() {
  const std::string configuration = state_ + "/ganesha.conf", log = log_file();
  const std::string lock = state_ + "/pid";
  const std::array<const char*, 9> arguments = {
      program_.c_str(), "-F",   "-f", configuration.c_str(), "-L", log.c_str(), "-p",
      lock.c_str(),     nullptr};
  // A blank ends a word of LD_PRELOAD.
  const auto slash = library_.rfind('/');
  const bool has_blank = library_.find(' ') != std::string::npos;
  const std::string preload = "LD_PRELOAD=" + (has_blank ? library_.substr(slash + 1) : library_);
  const std::string libraries =
      has_blank ? "LD_LIBRARY_PATH=" + library_.substr(0, slash) : "LANG=C";
  const std::string exported = "HANDLES_FOLDER=" + options_.folder;
  const std::array<const char*, 5> environment = {preload.c_str(), libraries.c_str(),
                                                  exported.c_str(),
                                                  "PATH=/usr/sbin:/usr/bin:/sbin:/bin", nullptr};
  const pid_t parent = getpid();
  process_ = fork();
  if (process_ < 0) return refuse_errno("nfs-ganesha");
  if (process_ == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(0);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, nullptr);
    close_range(STDERR_FILENO + 1, ~0U, 0);
    if (restarts_ > 0) usleep(kRestartPauseUs);
    execve(program_.c_str(), const_cast<char**>(arguments.data()),
           const_cast<char**>(environment.data()));
    _exit(127);
  }
  ended_.reset(static_cast<int>(syscall(SYS_pidfd_open, process_, 0)));
  return loop_.watch(ended_.get(), EPOLLIN, [this](std::uint32_t, TimeNs) { on_end(); });
}

Result<void> Ganesha::wait_until_it_listens() {
  const auto until = std::chrono::steady_clock::now() + kPatience;
  while (!listens(address_)) {
    if (std::chrono::steady_clock::now() > until || waitpid(process_, nullptr, WNOHANG) != 0) {
      return refuse(
          EIO, fmt::format("nfs-ganesha does not serve '{}': see {}", options_.folder, log_file()));
    }
    std::this_thread::sleep_for(kPause);
  }
  has_served_ = true;
  return {};
}

/// Clients connect again until it listens, and send again what it has not answered.
void Ganesha::on_end() {
  loop_.unwatch(ended_.get());
  waitpid(process_, nullptr, 0);
  process_ = 0;
  ++restarts_;
  log(LogLevel::warn, "nfs-ganesha has ended, and is started again: see {}", log_file());
  if (auto spawned = spawn(); !spawned) log(LogLevel::error, "{}", spawned.error().text);
}

Ganesha::~Ganesha() {
  if (process_ <= 0) return;
  loop_.unwatch(ended_.get());
  kill(process_, SIGKILL);
  waitpid(process_, nullptr, 0);
  std::error_code error;
  if (has_served_) fs::remove_all(state_, error);  // Else its log tells why.
}

}  // namespace verbatim::ulp::rpcrdma

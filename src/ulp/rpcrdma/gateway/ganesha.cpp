#include "ulp/rpcrdma/gateway/ganesha.h"

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"
#include "service/folder.h"
#include "ulp/rpcrdma/gateway/doorkeeper.h"

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

/// A port of 127.0.0.1 that nobody has now, in any case not in a network of its own.
Result<SocketAddress> free_address() {
  const auto any = SocketAddress::ipv4({127, 0, 0, 1}, 0);
  const UniqueFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket || bind(socket.get(), any.data(), any.size()) != 0)
    return refuse_errno("a port for nfs-ganesha");
  return SocketAddress::of_socket(socket.get());
}

/// An answer's socket, or why there is none.
Result<UniqueFd> socket_of(Result<service::Incoming> answer) {
  if (!answer) return std::unexpected(answer.error());
  int code = EPROTO;
  if (answer->bytes.size() == sizeof code) std::memcpy(&code, answer->bytes.data(), sizeof code);
  if (code != 0) return refuse(code, fmt::format("nfs-ganesha: {}", std::strerror(code)));
  return answer->descriptors.empty() ? UniqueFd() : std::move(answer->descriptors[0]);
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
  if (auto entered = server->enter(); !entered) return std::unexpected(entered.error());
  if (auto listening = server->wait_until_it_listens(); !listening)
    return std::unexpected(listening.error());
  if (auto watched = server->watch(); !watched) return std::unexpected(watched.error());
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

/// In a network of its own, or with a warning in this one.
Result<void> Ganesha::enter() {
  for (is_apart_ = true;; is_apart_ = false) {
    if (auto spawned = spawn(); !spawned) return spawned;
    const auto report = socket_of(door_->receive());
    if (report || !is_apart_) return report ? Result<void>() : std::unexpected(report.error());
    log(LogLevel::warn,
        "nfs-ganesha gets no network of its own ({}): every user of this machine reads and writes "
        "'{}' through {}, as this user does",
        std::strerror(report.error().code), options_.folder, address_.text());
    waitpid(std::exchange(process_, 0), nullptr, 0);
  }
}

/// nfs-ganesha has none of our libraries but the one for it. The doorkeeper is this program.
Result<void> Ganesha::spawn() {
  // A blank ends a word of LD_PRELOAD.
  const auto slash = library_.rfind('/');
  const bool has_blank = library_.find(' ') != std::string::npos;
  std::vector<std::string> words = {
      "verbatim-ulpd",
      "nfs-doorkeeper",
      is_apart_ ? "own" : "shared",
      std::to_string(address_.port()),
      "/usr/bin/env",
      "-i",
      "PATH=/usr/sbin:/usr/bin:/sbin:/bin",
      "HANDLES_FOLDER=" + options_.folder,
      "LD_PRELOAD=" + (has_blank ? library_.substr(slash + 1) : library_),
      has_blank ? "LD_LIBRARY_PATH=" + library_.substr(0, slash) : "LANG=C",
      program_,
      "-F",
      "-f",
      state_ + "/ganesha.conf",
      "-L",
      log_file(),
      "-p",
      state_ + "/pid"};
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  auto ends = service::make_socket_pair();
  if (!ends) return std::unexpected(ends.error());
  const pid_t parent = getpid();
  process_ = fork();
  if (process_ < 0) return refuse_errno("nfs-ganesha");
  if (process_ == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(0);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, nullptr);
    dup2(ends->second.get(), kDoorDescriptor);
    fcntl(kDoorDescriptor, F_SETFD, 0);  // Also if it had this number.
    close_range(kDoorDescriptor + 1, ~0U, 0);
    if (restarts_ > 0) usleep(kRestartPauseUs);
    execv("/proc/self/exe", arguments.data());
    _exit(127);
  }
  door_.emplace(std::move(ends->first), kDoorProtocol);
  return {};
}

/// From now on answers come as events.
Result<void> Ganesha::watch() {
  ended_.reset(static_cast<int>(syscall(SYS_pidfd_open, process_, 0)));
  if (auto watched =
          loop_.watch(ended_.get(), EPOLLIN, [this](std::uint32_t, TimeNs) { on_end(); });
      !watched)
    return watched;
  return loop_.watch(door_->fd(), EPOLLIN, [this](std::uint32_t, TimeNs) { on_answer(); });
}

bool Ganesha::listens() {
  constexpr auto kQuestion = static_cast<std::uint16_t>(DoorMessage::question);
  if (!door_->send_and_wait(kQuestion, {})) return false;
  const auto socket = socket_of(door_->receive());
  if (!socket) return false;
  pollfd ready{socket->get(), POLLOUT, 0};
  int error = ETIMEDOUT;
  socklen_t size = sizeof error;
  const int patience = std::chrono::duration_cast<std::chrono::milliseconds>(kPatience).count();
  if (poll(&ready, 1, patience) > 0) getsockopt(socket->get(), SOL_SOCKET, SO_ERROR, &error, &size);
  return error == 0;
}

Result<void> Ganesha::wait_until_it_listens() {
  const auto until = std::chrono::steady_clock::now() + kPatience;
  while (!listens()) {
    if (waitpid(process_, nullptr, WNOHANG) != 0) process_ = 0;
    if (std::chrono::steady_clock::now() > until || process_ == 0) {
      return refuse(
          EIO, fmt::format("nfs-ganesha does not serve '{}': see {}", options_.folder, log_file()));
    }
    std::this_thread::sleep_for(kPause);
  }
  has_served_ = true;
  return {};
}

void Ganesha::connect(const SocketAddress&, Give give) {
  constexpr auto kQuestion = static_cast<std::uint16_t>(DoorMessage::question);
  if (auto asked = door_->send(kQuestion, {}); !asked) return give(std::unexpected(asked.error()));
  waiting_.push_back(std::move(give));
  if (door_->wants_to_send()) loop_.change(door_->fd(), EPOLLIN | EPOLLOUT);
}

/// A report is one, too, that nobody waits for: after a restart.
void Ganesha::on_answer() {
  static_cast<void>(door_->flush());
  if (!door_->wants_to_send()) loop_.change(door_->fd(), EPOLLIN);
  auto incoming = door_->receive(MSG_DONTWAIT);
  const int error = incoming ? 0 : incoming.error().code;
  if (error == ECONNRESET) return loop_.change(door_->fd(), 0);  // The doorkeeper's end follows.
  const bool is_report =
      incoming && incoming->type == static_cast<std::uint16_t>(DoorMessage::report);
  if (error == EAGAIN || is_report || waiting_.empty()) return;
  const Give give = std::move(waiting_.front());
  waiting_.pop_front();
  give(socket_of(std::move(incoming)));
}

/// Clients connect again until it listens, and send again what it has not answered.
void Ganesha::on_end() {
  loop_.unwatch(ended_.get());
  loop_.unwatch(door_->fd());
  waitpid(process_, nullptr, 0);
  process_ = 0;
  ++restarts_;
  log(LogLevel::warn, "nfs-ganesha has ended, and is started again: see {}", log_file());
  for (const Give& give : std::exchange(waiting_, {}))
    give(refuse(ECONNREFUSED, "nfs-ganesha has ended"));
  auto spawned = spawn();
  if (spawned) spawned = watch();
  if (!spawned) log(LogLevel::error, "{}", spawned.error().text);
}

Ganesha::~Ganesha() {
  if (process_ <= 0) return;
  if (ended_) loop_.unwatch(ended_.get()), loop_.unwatch(door_->fd());
  kill(process_, SIGKILL);
  waitpid(process_, nullptr, 0);
  std::error_code error;
  if (has_served_) fs::remove_all(state_, error);  // Else its log tells why.
}

}  // namespace verbatim::ulp::rpcrdma

#include "service/keeper/keeper.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/socket.h>

#include "base/os/passed_descriptors.h"

namespace verbatim::service {
namespace {

using Name = std::array<char, Keeper::kNameMax + 1>;
using Names = std::array<Name, Keeper::kDescriptorsMax>;
using Descriptors = std::array<int, Keeper::kDescriptorsMax>;
constexpr char kEnd = 'e';
constexpr TimeNs kPatience = 8 * kSecond;

/// What the process of a keeper has: nothing that is allocated.
struct Held {
  Names names{};
  Descriptors descriptors{};
  std::size_t count = 0;
};

bool send_all(int connection, Held& held) {
  const iovec part{held.names.data(), held.count * sizeof(Name)};
  return send_message(connection, {&part, 1}, std::span(held.descriptors).first(held.count));
}

/// Gives its descriptors to each that connects, until one says that it shall end.
[[noreturn]] void keep(int listener, Held& held) {
  for (;;) {
    const UniqueFd connection(accept4(listener, nullptr, nullptr, SOCK_CLOEXEC));
    if (!connection) {
      if (errno == EINTR || errno == ECONNABORTED) continue;
      _exit(1);
    }
    set_patience(connection.get(), SO_RCVTIMEO, kPatience);
    char said = 0;
    if (!send_all(connection.get(), held)) continue;
    if (recv(connection.get(), &said, 1, 0) != 1 || said != kEnd) continue;
    // Before the connection ends: who waits for that finds them closed.
    for (const int fd : std::span(held.descriptors).first(held.count)) close(fd);
    close(listener);
    _exit(0);
  }
}

/// Closes all but these and the first three.
void close_others(std::span<int> kept) {
  std::ranges::sort(kept);
  int from = 3;
  for (const int fd : kept) {
    if (fd > from) close_range(static_cast<unsigned>(from), static_cast<unsigned>(fd - 1), 0);
    from = fd + 1;
  }
  close_range(static_cast<unsigned>(from), ~0U, 0);
}

/// In the child: it has nothing of the daemon but these descriptors.
[[noreturn]] void become_keeper(int listener, Held& held) {
  setsid();
  prctl(PR_SET_NAME, "verbatim-keeper");
  struct sigaction usual{};
  usual.sa_handler = SIG_DFL;
  for (const int number : {SIGTERM, SIGSEGV, SIGBUS}) sigaction(number, &usual, nullptr);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  const int null = open("/dev/null", O_RDWR);
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) dup2(null, fd);
  std::array<int, Keeper::kDescriptorsMax + 1> kept{};
  std::ranges::copy(held.descriptors, kept.begin());
  kept[held.count] = listener;
  close_others(std::span(kept).first(held.count + 1));
  if (chdir("/") != 0) _exit(1);
  keep(listener, held);
}

/// Waits for its end.
void tell_to_end(const UniqueFd& connection) {
  char said = kEnd;
  if (send(connection.get(), &said, 1, MSG_NOSIGNAL) != 1) return;
  Names unread{};
  while (recv(connection.get(), unread.data(), sizeof unread, 0) > 0) {
  }
}

}  // namespace

Result<std::string> Keeper::path_of(const ServiceName& name) {
  auto folder = folder_of(name);
  if (!folder) return folder;
  return *folder + ".keep";
}

Result<std::vector<Kept>> Keeper::ask(const std::string& path) {
  const auto connection = connect_to(path, kPatience);
  if (!connection) return std::unexpected(connection.error());
  Names names{};
  const iovec part{names.data(), sizeof names};
  std::array<UniqueFd, kDescriptorsMax> descriptors;
  const auto message = receive_message(connection->get(), {&part, 1}, descriptors);
  if (!message) return refuse_errno("keeper");
  if (message->bytes != message->descriptors * sizeof(Name)) {
    return refuse(EPROTO, "keeper: names and descriptors do not agree");
  }
  std::vector<Kept> kept;
  for (std::size_t i = 0; i < message->descriptors; ++i) {
    kept.push_back({std::string(names[i].data(), strnlen(names[i].data(), kNameMax)),
                    std::move(descriptors[i])});
  }
  return kept;
}

Result<void> Keeper::start(const std::string& path,
                           std::span<const std::pair<std::string, int>> descriptors) {
  Held held;
  if (descriptors.size() > kDescriptorsMax) return refuse(E2BIG, "too many descriptors to keep");
  for (const auto& [name, fd] : descriptors) {
    if (name.size() > kNameMax) return refuse(ENAMETOOLONG, name);
    name.copy(held.names[held.count].data(), kNameMax);
    held.descriptors[held.count++] = fd;
  }
  const auto before = connect_to(path, kPatience);
  auto listener = listen_at(path);
  if (!listener) return std::unexpected(listener.error());
  fcntl(listener->get(), F_SETFL, fcntl(listener->get(), F_GETFL) & ~O_NONBLOCK);
  const pid_t child = fork();
  if (child < 0) return refuse_errno("fork");
  if (child == 0) become_keeper(listener->get(), held);
  if (before) tell_to_end(*before);
  return {};
}

bool Keeper::end(const std::string& path) {
  const auto connection = connect_to(path, kPatience);
  unlink(path.c_str());
  if (connection) tell_to_end(*connection);
  return connection.has_value();
}

}  // namespace verbatim::service

// The rsockets of this process by fd. A socket may have several fds; each is a duplicate of the
// handle's descriptor.
#include <algorithm>
#include <cerrno>
#include <new>
#include <shared_mutex>
#include <unordered_map>

#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include "ulp/rsocket/private.h"
#include "ulp/rsocket/socket.h"

namespace verbatim::rsocket {
namespace {

struct Table {
  std::shared_mutex mutex;
  std::unordered_map<int, std::shared_ptr<Socket>> sockets;
  std::vector<std::shared_ptr<Socket>>
      parents;  // In a forked child: the parent's sockets, never used.
};

/// Never destroyed: threads may use it while the process exits.
Table& table() {
  static Table* const table = new Table;
  return *table;
}

void before_fork() { table().mutex.lock(); }
void in_parent() { table().mutex.unlock(); }
/// A child must not use the parent's rsockets: destroying them would end the parent's connections.
/// Their descriptors stay open until the program closes them.
void in_child() {
  for (auto& [number, socket] : table().sockets) table().parents.push_back(std::move(socket));
  table().sockets.clear();
  // The lock was held by the parent's thread, so the child constructs a new one.
  new (&table().mutex) std::shared_mutex;
}

void set(int number, std::shared_ptr<Socket> socket) {
  socket->numbers.push_back(number);
  table().sockets[number] = std::move(socket);
}

/// Removes the fd from its socket. Its handle must be another descriptor by then, unless this was
/// the last fd. Returns the socket, if there was one.
std::shared_ptr<Socket> unset(int number) {
  const auto found = table().sockets.find(number);
  std::shared_ptr<Socket> socket = std::move(found->second);
  table().sockets.erase(found);
  std::erase(socket->numbers, number);
  socket->closed = socket->numbers.empty();
  return socket->numbers.empty() ? std::move(socket) : nullptr;
}

/// `number` will be another file's fd, so moves the socket's handle away from it.
Outcome<void> make_way(Socket& socket, int number) {
  if (socket.number() != number) return {};
  const auto other = std::ranges::find_if(socket.numbers, [&](int it) { return it != number; });
  if (other != socket.numbers.end()) {
    socket.move_to(*other);
    return {};
  }
  const int own = fcntl(number, F_DUPFD_CLOEXEC, 0);
  if (own < 0) return fail(errno);
  socket.move_to(own);
  return {};
}

/// dup3(2), if `from`, `number` or both are rsockets.
Outcome<void> duplicate(int from, int number, int flags) {
  std::shared_ptr<Socket> last;
  {
    std::unique_lock lock(table().mutex);
    auto& sockets = table().sockets;
    if (fcntl(from, F_GETFD) < 0) return fail(errno);
    const auto replaced = sockets.find(number);
    if (replaced != sockets.end()) {
      if (auto ok = make_way(*replaced->second, number); !ok) return ok;
    }
    if (dup3(from, number, flags) < 0) return fail(errno);
    if (replaced != sockets.end()) last = unset(number);
    if (const auto found = sockets.find(from); found != sockets.end()) set(number, found->second);
  }
  if (last) last->close();
  return {};
}

}  // namespace

std::shared_ptr<Socket> find(int number) {
  std::shared_lock lock(table().mutex);
  const auto found = table().sockets.find(number);
  return found == table().sockets.end() ? nullptr : found->second;
}

void enter(std::shared_ptr<Socket> socket) {
  // If this fails for lack of memory, a child only has rsockets that it cannot use.
  [[maybe_unused]] static const int registered = pthread_atfork(before_fork, in_parent, in_child);
  std::unique_lock lock(table().mutex);
  const int number = socket->number();
  set(number, std::move(socket));
}

Outcome<std::shared_ptr<Socket>> take_out(int number) {
  std::unique_lock lock(table().mutex);
  const auto found = table().sockets.find(number);
  if (found == table().sockets.end()) return fail(EBADF);
  const std::shared_ptr<Socket> socket = found->second;
  // The last fd is closed with the handle, when the last call on the socket has returned.
  if (socket->numbers.size() > 1) {
    if (auto ok = make_way(*socket, number); !ok) return fail(ok.error());
  }
  std::shared_ptr<Socket> last = unset(number);
  if (socket->number() != number) close(number);
  return last;
}

}  // namespace verbatim::rsocket

int verbatim_rdup3(int from, int number, int flags) {
  if (auto done = verbatim::rsocket::duplicate(from, number, flags); !done) {
    errno = done.error();
    return -1;
  }
  return number;
}

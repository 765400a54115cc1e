#include "dropin/rdspreload/sockets.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <mutex>
#include <span>
#include <vector>

#include "dropin/rdspreload/fd_table.h"

namespace verbatim::rdspreload {
namespace {

namespace local = ulp::rds::local;

std::array<std::atomic<Socket*>, kNumbers> table;
std::atomic<int> highest{-1};

/// Sockets that are closed, until no thread is in them. Never destroyed.
struct Retired {
  std::mutex lock;
  std::vector<Socket*> sockets;
};
Retired& retired() {
  static auto* const all = new Retired;
  return *all;
}

std::atomic<Socket*>& at(int fd) { return table[static_cast<std::size_t>(fd)]; }
bool is_number(int fd) { return fd >= 0 && fd < kNumbers; }

void retire(Socket* socket) {
  const std::lock_guard held(retired().lock);
  retired().sockets.push_back(socket);
  std::erase_if(retired().sockets, [](Socket* one) {
    if (one->users.load() != 0) return false;
    local::unmap(one->inbox);
    delete one;
    return true;
  });
}

void raise_highest(int fd) {
  int last = highest.load();
  while (last < fd && !highest.compare_exchange_weak(last, fd)) {
  }
}

void put(int fd, Socket* socket) {
  Socket* const old = at(fd).exchange(socket);
  if (socket != nullptr) raise_highest(fd);
  if (old != nullptr && old->descriptors.fetch_sub(1) == 1) retire(old);
}

/// The first use of it here: it was opened, or inherited, or came from another process.
Socket* open(int fd) {
  local::Inbox* const inbox = local::open_inbox(fd);
  if (inbox == nullptr) {
    errno = ENETDOWN;
    return nullptr;
  }
  auto* const socket = new Socket;
  socket->inbox = inbox;
  Socket* none = nullptr;
  if (!at(fd).compare_exchange_strong(none, socket)) {
    local::unmap(inbox);
    delete socket;
    return none;
  }
  raise_highest(fd);
  return socket;
}

}  // namespace

SocketUse::SocketUse(int fd) : socket_(nullptr) {
  if (!is_number(fd)) return;
  Socket* socket = at(fd).load();
  if (socket == nullptr) socket = open(fd);
  while (socket != nullptr) {
    socket->users.fetch_add(1);
    Socket* const now = at(fd).load();
    if (now == socket) break;
    socket->users.fetch_sub(1);  // It was closed meanwhile.
    socket = now;
  }
  socket_ = socket;
}

SocketUse::~SocketUse() {
  if (socket_ != nullptr) socket_->users.fetch_sub(1);
}

void share_socket(int from, int to) {
  if (!is_number(from) || !is_number(to) || from == to) return;
  Socket* const socket = at(from).load();
  if (socket != nullptr) socket->descriptors.fetch_add(1);
  put(to, socket);
}

void drop_socket(int fd) {
  if (is_number(fd) && at(fd).load() != nullptr) put(fd, nullptr);
}

Waiting::Waiting() {
  for (int fd = highest.load(); fd >= 0; --fd) {
    if (at(fd).load(std::memory_order_relaxed) == nullptr) continue;
    SocketUse socket(fd);
    if (!socket) continue;
    local::arm(fd, socket.inbox());
    if (count_ < kArmedMax) armed_[count_++] = socket.keep();
  }
}

Waiting::~Waiting() {
  for (Socket* const socket : std::span(armed_).first(count_)) {
    local::disarm(*socket->inbox);
    socket->users.fetch_sub(1);
  }
}

}  // namespace verbatim::rdspreload

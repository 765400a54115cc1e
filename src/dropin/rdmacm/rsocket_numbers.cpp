// The rsockets of this process by number.
#include <shared_mutex>
#include <unordered_map>

#include "dropin/rdmacm/rsocket_socket.h"

namespace verbatim::rsocket {
namespace {

struct Table {
  std::shared_mutex mutex;
  std::unordered_map<int, std::shared_ptr<Socket>> sockets;
};

/// Never destroyed: threads may use it while the process exits.
Table& table() {
  static Table* const table = new Table;
  return *table;
}

}  // namespace

std::shared_ptr<Socket> find(int number) {
  std::shared_lock lock(table().mutex);
  const auto found = table().sockets.find(number);
  return found == table().sockets.end() ? nullptr : found->second;
}

void enter(std::shared_ptr<Socket> socket) {
  std::unique_lock lock(table().mutex);
  const int number = socket->number();
  table().sockets[number] = std::move(socket);
}

std::shared_ptr<Socket> take_out(int number) {
  std::unique_lock lock(table().mutex);
  const auto found = table().sockets.find(number);
  if (found == table().sockets.end()) return nullptr;
  std::shared_ptr<Socket> socket = std::move(found->second);
  table().sockets.erase(found);
  return socket;
}

}  // namespace verbatim::rsocket

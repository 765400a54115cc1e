#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "agent/netlink/rdma_answers.h"
#include "base/bytes.h"
#include "base/error.h"
#include "base/os/unique_fd.h"

namespace verbatim::agent::netlink {

/// The socket of a node, beside the folder that programs have as their view. The view knows it, too
/// (src/dropin/view/netlink.cpp).
inline std::string socket_path(const std::string& view) { return view + ".netlink"; }

/// The sockets that programs take for netlink's (src/dropin/view): connections to a Unix socket
/// over which datagrams go as they are. One thread.
class NetlinkSockets {
 public:
  using Answerer = std::function<std::vector<std::vector<std::byte>>(ByteSpan, const Asker&)>;

  /// More connections wait until one of these ends.
  static constexpr std::size_t kConnectionsMax = 64;

  static Result<std::unique_ptr<NetlinkSockets>> listen(const std::string& path, Answerer answerer);
  ~NetlinkSockets();

  /// Readable when `serve` should be called. Constant.
  int fd() const { return events_.get(); }
  void serve();

 private:
  struct Connection {
    UniqueFd fd;
    Asker asker;
    std::deque<std::vector<std::byte>> waiting;  // Datagrams for which its socket was full.
  };
  NetlinkSockets(std::string path, Answerer answerer)
      : path_(std::move(path)), answerer_(std::move(answerer)) {}
  void accept();
  void on_ready(Connection& connection);
  bool receive(Connection& connection);
  bool send_waiting(Connection& connection);
  void watch(int fd, std::uint32_t events, int operation);

  const std::string path_;
  const Answerer answerer_;
  UniqueFd listening_, events_;
  UniqueFd spare_;  // Closed to accept, and to refuse, one connection where no descriptor is left.
  std::map<int, Connection> connections_;
};

}  // namespace verbatim::agent::netlink

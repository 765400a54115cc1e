#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "base/types.h"
#include "link/udp/udp.h"

namespace verbatim::link {

/// The sockets that a link receives from: those of its address, and one for each multicast group
/// that it has joined. One thread at a time.
class ReceivingSockets {
 public:
  /// Links that receive in the same pass share the buffers.
  explicit ReceivingSockets(std::shared_ptr<UdpReceiver> buffers) : buffers_(std::move(buffers)) {}

  /// `group`: zero for the link's own address.
  void add(UdpSocket socket, const Gid& group) {
    descriptors_.push_back(socket.fd());
    sockets_.emplace_back(std::move(socket), group);
  }
  void leave(const Gid& group) {
    std::erase_if(sockets_, [&group](const auto& one) { return one.second == group; });
    descriptors_.clear();
    for (const auto& [socket, of] : sockets_) descriptors_.push_back(socket.fd());
  }
  std::span<const int> descriptors() const { return descriptors_; }

  /// Calls `on_datagrams(const ReceivedDatagrams&, const Gid& group)` for all that have arrived;
  /// returns how many.
  template <typename OnDatagrams>
  std::size_t receive(OnDatagrams on_datagrams) {
    std::size_t received = 0;
    for (const auto& [socket, group] : sockets_) {
      received += buffers_->receive(socket, [&, &of = group](const ReceivedDatagrams& datagrams) {
        on_datagrams(datagrams, of);
      });
    }
    return received;
  }

 private:
  std::shared_ptr<UdpReceiver> buffers_;
  std::vector<std::pair<UdpSocket, Gid>> sockets_;
  std::vector<int> descriptors_;
};

}  // namespace verbatim::link

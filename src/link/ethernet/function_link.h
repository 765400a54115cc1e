#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>

#include "base/net/address.h"
#include "base/net/path.h"
#include "link/ethernet/node_function.h"
#include "link/link.h"

namespace verbatim::link {

/// RoCE, of either version, from one address of a node whose interface is a function that is rings
/// of memory: no kernel is in between. Every address is on the function's Ethernet: there are no
/// routers. Of the links of a program with one version, the first one receives for all.
class FunctionLink final : public Link {
 public:
  /// Next hops that one address of a node can have.
  static constexpr std::size_t kHopsMax = 1 << 12;

  /// Errors as NodeFunction::share.
  static Result<std::unique_ptr<FunctionLink>> open(const SocketAddress& local,
                                                    std::shared_ptr<NodeFunction> function);

  ~FunctionLink() override;

  Properties properties() const override;
  Result<NextHop*> next_hop(const Path& path, Qpn destination,
                            std::optional<TimeNs> patience) override;
  bool reserve(std::uint8_t, const Reservation&) override { return true; }
  void release(std::uint8_t, const Reservation&) override {}
  int send(const Packets& packets) noexcept override;
  std::size_t receive(Sink& sink, TimeNs now) override;
  Result<void> join(const MulticastGroup& group) override;
  void leave(const MulticastGroup& group) override;
  const std::atomic<std::uint32_t>* has_packets() const override { return nullptr; }
  std::span<const int> descriptors() const override {
    return {&descriptor_, receives_ ? std::size_t{1} : std::size_t{0}};
  }
  bool begin_sleep() override { return !receives_ || share_.port->begin_sleep(); }

 private:
  class Hop;
  FunctionLink(const SocketAddress& local, std::shared_ptr<NodeFunction> function,
               NodeFunction::Share& share);
  Result<MacAddress> mac_of(const SocketAddress& destination, std::optional<TimeNs> patience);
  void on_frame(MutableByteSpan frame, Sink& sink, TimeNs now);
  void on_v1(MutableByteSpan packet, Sink& sink, TimeNs now);
  void on_v2(MutableByteSpan frame, Sink& sink, TimeNs now);
  void answer(ByteSpan frame);
  /// Where a packet to this GID goes: to an address of the node (then `group` is zero), or to a
  /// joined group. Null: to neither.
  const SocketAddress* own_of(const Gid& destination, Gid& group) const;

  const SocketAddress local_;
  const std::shared_ptr<NodeFunction> function_;
  NodeFunction::Share& share_;
  const bool receives_;
  const int descriptor_;
  Path from_ = RoceV2Path{}, to_ = RoceV2Path{};  // Of the last packet received.
  std::mutex mutex_;                              // Guards the hops' table.
  struct HopKey {
    std::array<std::uint8_t, 16> destination;
    std::uint16_t source_port;
    std::uint8_t traffic_class, hop_limit;
    std::uint32_t flow_label;
    auto operator<=>(const HopKey&) const = default;
  };
  std::map<HopKey, std::unique_ptr<Hop>> hops_;
};

}  // namespace verbatim::link

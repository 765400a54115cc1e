#include "link/decorators/capture.h"

#include <algorithm>
#include <ctime>
#include <utility>
#include <variant>

#include "base/net/path.h"
#include "link/path_flow.h"

namespace verbatim::link {
namespace {

/// Returns the time since 1970, for captures.
TimeNs wall_clock_now() {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  return static_cast<TimeNs>(now.tv_sec) * kSecond + static_cast<TimeNs>(now.tv_nsec);
}

void add_each(CaptureRing& ring, CapturedPacket packet, std::span<const iovec> pieces,
              std::size_t packet_bytes, std::size_t total) {
  for (std::size_t at = 0; at < total; at += packet_bytes) {
    ring.add(packet, pieces, at, std::min(packet_bytes, total - at));
    // The kernel numbers the datagrams of one call 0, 1, 2...
    ++packet.identification;
  }
}

}  // namespace

void CaptureTap::set_ring(std::unique_ptr<CaptureRing> ring) {
  const std::lock_guard guard(lock_);
  ring_ = std::move(ring);
}

void CaptureTap::add(const Packets& packets, Remark remark) {
  std::size_t total = 0;
  for (const iovec& piece : packets.pieces) total += piece.iov_len;
  const bool is_infiniband = std::holds_alternative<InfinibandPath>(packets.path);
  const std::lock_guard guard(lock_);
  if (ring_ == nullptr || packets.packet_bytes == 0) return;
  add_each(*ring_,
           {.time = wall_clock_now(),
            .is_infiniband = is_infiniband,
            .flow = is_infiniband ? wire::IpFlow{} : flow_of(packets.to.local(), packets.path),
            .direction = Direction::send,
            .remark = remark},
           packets.pieces, packets.packet_bytes, total);
}

void CaptureTap::add(const Received& packets, bool is_infiniband) {
  if (!is_infiniband && (packets.from == nullptr || packets.to == nullptr)) return;
  const iovec piece{packets.bytes.data(), packets.bytes.size()};
  const std::lock_guard guard(lock_);
  if (ring_ == nullptr || packets.packet_bytes == 0) return;
  add_each(
      *ring_,
      {.time = wall_clock_now(),
       .is_infiniband = is_infiniband,
       .flow = is_infiniband ? wire::IpFlow{}
                             : wire::flow_of(address_of(*packets.from), address_of(*packets.to)),
       .direction = Direction::receive},
      std::span(&piece, 1), packets.packet_bytes, packets.bytes.size());
}

int Capture::send(const Packets& packets) noexcept {
  tap_.add(packets, Remark::none);
  return next().send(packets);
}

int Capture::send_marked(const Packets& packet, Remark remark) noexcept {
  tap_.add(packet, remark);
  return next().send(packet);
}

class Capture::TappedSink final : public Sink {
 public:
  TappedSink(const Capture& capture, Sink& to) : capture_(capture), to_(to) {}
  void on_packets(const Received& packets, TimeNs now) override {
    capture_.tap_.add(packets, capture_.is_infiniband_);
    to_.on_packets(packets, now);
  }
  void on_room() override { to_.on_room(); }

 private:
  const Capture& capture_;
  Sink& to_;
};

std::size_t Capture::receive(Sink& sink, TimeNs now) {
  TappedSink tapped(*this, sink);
  return next().receive(tapped, now);
}

}  // namespace verbatim::link

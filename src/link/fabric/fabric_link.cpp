#include "link/fabric/fabric_link.h"

#include <cerrno>
#include <utility>

#include <fmt/format.h>

#include "fabric/protocol/channel.h"
#include "link/fabric/outgoing_headers.h"
#include "link/pieces.h"

namespace verbatim::link {
namespace {

/// As many as a burst has.
constexpr std::size_t kPiecesMax = 512;

/// The pieces of the next packet as spans.
class PacketPieces {
 public:
  std::span<const ByteSpan> of(std::span<const iovec> pieces) {
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      spans_[i] = {static_cast<const std::byte*>(pieces[i].iov_base), pieces[i].iov_len};
    }
    return std::span(spans_).first(pieces.size());
  }

 private:
  std::array<ByteSpan, kPiecesMax> spans_;
};

std::uint32_t bytes_of(std::span<const ByteSpan> packet) {
  std::size_t bytes = 0;
  for (const ByteSpan piece : packet) bytes += piece.size();
  return static_cast<std::uint32_t>(bytes);
}

}  // namespace

class FabricLink::LaneHop final : public NextHop {
 public:
  explicit LaneHop(std::uint8_t lane) { lane_ = lane; }
};

Result<std::unique_ptr<FabricLink>> FabricLink::attach(UniqueFd connection,
                                                       const std::string& folder,
                                                       const Place& place) {
  fabric::protocol::AttachData request{.port = place.port, .qpn_range = place.qpn_range};
  fabric::protocol::put_text(request.host, place.host);
  UniqueFd memory;
  const auto attached =
      fabric::protocol::ask<fabric::protocol::DataAttached>(connection.get(), request, &memory);
  if (!attached) return std::unexpected(attached.error());
  auto fabric = std::make_shared<AttachedFabric>();
  auto shared = fabric::SharedFabric::attach(memory.get());
  if (!shared) return std::unexpected(std::move(shared.error()));
  fabric->fabric = std::move(*shared);
  fabric->end = attached->end;
  auto doorbells = fabric::Doorbells::open(folder);
  if (!doorbells) return std::unexpected(std::move(doorbells.error()));
  fabric->doorbells = std::move(*doorbells);
  auto bell = fabric->doorbells.listen(attached->end);
  if (!bell) return std::unexpected(std::move(bell.error()));
  fabric->fabric->set_doorbells(
      [](void* bells, std::uint32_t end) { static_cast<fabric::Doorbells*>(bells)->ring(end); },
      &fabric->doorbells);
  return std::unique_ptr<FabricLink>(
      new FabricLink(std::move(fabric), std::move(connection), std::move(*bell)));
}

FabricLink::FabricLink(std::shared_ptr<AttachedFabric> fabric, UniqueFd connection, UniqueFd bell)
    : fabric_(std::move(fabric)),
      end_(fabric_->fabric->image(), fabric_->end),
      connection_(std::move(connection)),
      bell_(std::move(bell)),
      descriptor_(bell_.get()) {
  for (std::size_t lane = 0; lane < hops_.size(); ++lane) {
    hops_[lane] = std::make_unique<LaneHop>(static_cast<std::uint8_t>(lane));
  }
}

const fabric::LinkRecord& FabricLink::cable() const {
  const fabric::Image& image = fabric_->fabric->image();
  const fabric::NodeRecord& host = image.node(image.end(end_.index()).host);
  return image.link(image.port(host, fabric::kCablePort).out);
}

Properties FabricLink::properties() const {
  constexpr std::uint64_t kBitsAndPsPerMicrosecond = 8 * 1'000'000;
  const std::uint32_t bytes_max = cable().bytes_max.load(std::memory_order_relaxed);
  const std::uint64_t ps_per_byte = cable().ps_per_byte.load(std::memory_order_relaxed);
  return {.first_header = FirstHeader::lrh,
          .packet_bytes_max =
              bytes_max != 0 ? bytes_max : static_cast<std::uint32_t>(fabric::kPacketBytesMax),
          .rate_mbps = ps_per_byte == 0
                           ? 0
                           : static_cast<std::uint32_t>(kBitsAndPsPerMicrosecond / ps_per_byte),
          .lossless = true,
          .checks_integrity = false,
          .asks_kernel = false};
}

/// EHOSTUNREACH: the subnet manager has no lane for the path's service level.
Result<NextHop*> FabricLink::next_hop(const Path& path, Qpn /*destination*/,
                                      std::optional<TimeNs> /*patience*/) {
  const auto* const infiniband = std::get_if<InfinibandPath>(&path);
  if (infiniband == nullptr) return refuse(EINVAL, "a fabric's link takes paths of InfiniBand");
  const unsigned lane = end_.lane_of(infiniband->service_level);
  if (lane != fabric::kNoLane) return hops_[lane].get();
  return refuse(EHOSTUNREACH, fmt::format("the port has no virtual lane for service level {}",
                                          infiniband->service_level));
}

bool FabricLink::reserve(std::uint8_t lane, std::uint32_t bytes) {
  const std::lock_guard guard(posting_);
  return end_.reserve(lane, bytes);
}

void FabricLink::release(std::uint8_t lane, std::uint32_t bytes) {
  const std::lock_guard guard(posting_);
  end_.release(lane, bytes);
}

void FabricLink::shrink(std::uint8_t lane, std::uint32_t reserved, std::uint32_t bytes) {
  const std::lock_guard guard(posting_);
  end_.shrink(lane, reserved, bytes);
}

/// What cannot be sent counts as lost: its reservation goes back.
int FabricLink::send(const Packets& packets) noexcept {
  fabric::Mover* const mover = mover_of_this_thread(fabric_);
  int error = mover == nullptr ? ENOBUFS : 0;
  PieceCursor cursor(packets.pieces);
  std::array<iovec, kPiecesMax> taken;
  PacketPieces pieces;
  const std::lock_guard guard(posting_);
  for (std::uint32_t i = 0; i < packets.count; ++i) {
    const auto packet = pieces.of(cursor.take(packets.packet_bytes, taken));
    const auto headers = outgoing_headers(packet);
    if (mover == nullptr || !headers) {
      if (error == 0) error = EINVAL;
      end_.release(packets.lane, bytes_of(packet));
      continue;
    }
    end_.post({.pieces = packet,
               .dlid = headers->dlid,
               .p_key = headers->p_key,
               .service_level = headers->service_level,
               .lane = packets.lane,
               .destination = headers->destination});
  }
  if (mover != nullptr) end_.push(mover->walker());
  return error;
}

std::size_t FabricLink::receive(Sink& sink, TimeNs now) {
  if (end_.take_credit_news()) sink.on_room();
  fabric::Mover* const mover = mover_of_this_thread(fabric_);
  if (mover == nullptr) return 0;
  return end_.receive(mover->walker(), now, [&](const fabric::IncomingPacket& packet) {
    sink.on_packets({.from = nullptr,
                     .to = nullptr,
                     .group = {},
                     .packet_bytes = packet.bytes.size(),
                     .bytes = packet.bytes},
                    now);
  });
}

Result<void> FabricLink::join(const Gid& /*group*/) {
  return refuse(EOPNOTSUPP, "a group of a fabric is joined by its multicast LID");
}

Result<void> FabricLink::set_member(Lid group, bool is_member) {
  const std::lock_guard guard(asking_);
  const auto done = fabric::protocol::ask<fabric::protocol::Done>(
      connection_.get(), fabric::protocol::JoinGroup{
                             .lid = raw(group), .is_member = static_cast<std::uint8_t>(is_member)});
  if (!done) return std::unexpected(done.error());
  return {};
}

bool FabricLink::begin_sleep() {
  fabric::Doorbells::silence(bell_.get());
  return end_.begin_sleep();
}

}  // namespace verbatim::link

#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "region/region_table.h"
#include "transport/ib/responder/responder.h"

/// A responder under test: packets in and out are lines of text, PSNs count from the first expected
/// one, addresses from the region's start. A test reads like a packet ladder.
namespace verbatim::transport::bench {

using wire::Opcode;
using wire::Position;
using wire::Service;
using wire::Verb;

inline constexpr std::uint64_t kRegionStart = 0x10000;
inline constexpr std::uint64_t kRegionBytes = 0x10000;
inline constexpr std::uint32_t kMtu = 256;
inline constexpr PdNumber kPd{3};
/// XRC: the shared receive queue that requests name by default, and one of another protection
/// domain.
inline constexpr SrqNumber kSrq{0x51};
inline constexpr SrqNumber kOtherSrq{0x52};
inline constexpr PdNumber kOtherPd{4};
inline constexpr std::uint32_t kEveryRight =
    region::kRemoteWrite | region::kRemoteRead | region::kRemoteAtomic | region::kFlushGlobal;
inline constexpr Qpn kOwnQpn{0x17};

/// A request packet under construction.
struct Request {
  Verb verb{};
  Position position{};
  std::int32_t psn = 0;
  std::size_t bytes = 0;
  wire::Headers headers{};
  bool has_immediate = false;
  bool has_invalidate = false;
  bool own_key = false;
  Service service = Service::rc;
  SrqNumber srq_number = kSrq;

  Request ack() && { return headers.bth.ack_request = true, std::move(*this); }
  Request solicited() && { return headers.bth.solicited_event = true, std::move(*this); }
  Request pad(std::uint8_t count) && { return headers.bth.pad_count = count, std::move(*this); }
  Request on(Service other) && { return service = other, std::move(*this); }
  Request for_srq(SrqNumber srq) && { return srq_number = srq, std::move(*this); }
  Request immediate(std::uint32_t value) && {
    has_immediate = true;
    headers.immediate = value;
    return std::move(*this);
  }
  Request invalidate(MemoryKey key) && {
    has_invalidate = true;
    headers.invalidate_key = key;
    return std::move(*this);
  }
  Request key(MemoryKey key) && {
    headers.reth.key = headers.atomic_eth.key = key;
    own_key = true;
    return std::move(*this);
  }
  /// Sets the address, counted from the region's start.
  Request at(std::uint64_t offset) && {
    headers.reth.address = headers.atomic_eth.address = kRegionStart + offset;
    return std::move(*this);
  }
};

inline Request send(Position position, std::int32_t psn, std::size_t bytes) {
  return {.verb = Verb::send, .position = position, .psn = psn, .bytes = bytes};
}

inline Request write(Position position, std::int32_t psn, std::size_t bytes,
                     std::uint32_t total = ~0u) {
  Request request{.verb = Verb::write, .position = position, .psn = psn, .bytes = bytes};
  request.headers.reth = {.address = kRegionStart,
                          .length = total == ~0u ? static_cast<std::uint32_t>(bytes) : total};
  return request;
}

inline Request read(std::int32_t psn, std::uint32_t bytes, std::uint64_t offset = 0) {
  Request request{.verb = Verb::read_request, .position = Position::only, .psn = psn};
  request.headers.reth = {.address = kRegionStart + offset, .length = bytes};
  return request;
}

inline Request compare_swap(std::int32_t psn, std::uint64_t compare, std::uint64_t swap) {
  Request request{.verb = Verb::compare_swap, .position = Position::only, .psn = psn};
  request.headers.atomic_eth = {.address = kRegionStart, .swap_or_add = swap, .compare = compare};
  return request;
}

inline Request fetch_add(std::int32_t psn, std::uint64_t add) {
  Request request{.verb = Verb::fetch_add, .position = Position::only, .psn = psn};
  request.headers.atomic_eth = {.address = kRegionStart, .swap_or_add = add};
  return request;
}

inline Request atomic_write(std::int32_t psn, std::uint64_t offset = 0) {
  Request request{.verb = Verb::atomic_write, .position = Position::only, .psn = psn, .bytes = 8};
  request.headers.reth = {.address = kRegionStart + offset, .length = 8};
  return request;
}

inline Request flush(std::int32_t psn, std::uint32_t bytes, std::uint64_t offset = 0) {
  Request request{.verb = Verb::flush, .position = Position::only, .psn = psn};
  request.headers.feth = {.placement = wire::Feth::kGlobal};
  request.headers.reth = {.address = kRegionStart + offset, .length = bytes};
  return request;
}

class Bench final : private ReceiveSource {
 public:
  explicit Bench(Psn start = Psn(0), Service service = Service::rc,
                 std::uint8_t max_dest_rd_atomic = 4, std::uint32_t access = kEveryRight)
      : start_(start),
        entries_(8),
        regions_((region::RegionTable::initialise(header_, 1), header_), entries_) {
    key = *regions_.add(region(kEveryRight, kPd));
    responder.configure({.service = service,
                         .dest_qp = Qpn(0x42),
                         .pkey = PKey{0x8001},
                         .expected_psn = start,
                         .path_mtu = Mtu::k256,
                         .max_dest_rd_atomic = max_dest_rd_atomic,
                         .min_rnr_timer = 12,
                         .access = access,
                         .pd = kPd,
                         .own_qp = kOwnQpn});
  }

  /// Posts a receive request; its ticket is the number of those before it.
  void post(std::uint64_t capacity_bytes = 0x10000) {
    receives_.push_back({.ticket = tickets_++, .capacity_bytes = capacity_bytes});
  }
  MemoryKey add_region(std::uint32_t access, PdNumber pd) {
    return *regions_.add(region(access, pd));
  }
  /// Adds a type 2 window on the region's first bytes, bound by queue pair `by`.
  MemoryKey add_window(std::uint64_t bytes, std::uint32_t access, Qpn by = kOwnQpn) {
    const MemoryKey shown = add_region(kEveryRight | region::kMwBind | region::kLocalWrite, kPd);
    const MemoryKey window = *regions_.add_window(region::EntryKind::window_2, kPd);
    EXPECT_TRUE(regions_.bind({.window = window,
                               .key = window,
                               .region = shown,
                               .address = kRegionStart,
                               .length = bytes,
                               .access = access},
                              {kPd, by}));
    return window;
  }
  void remove_region(MemoryKey which) { ASSERT_TRUE(regions_.remove(which)); }

  /// Passes a packet in and returns its effects. Atomics are executed on `word`.
  std::string in(Request request) {
    ResponderEffects effects;
    responder.on_packet(packet_of(request), *this, regions_, effects);
    return text(effects);
  }
  /// Passes in a request whose opcode is reserved, or whose headers do not belong to it.
  std::string in_invalid(Opcode opcode, std::int32_t psn) {
    wire::Packet packet{.is_invalid = true};
    packet.headers.bth = {.opcode = opcode, .dest_qp = kOwnQpn, .psn = start_ + psn};
    ResponderEffects effects;
    responder.on_packet(packet, *this, regions_, effects);
    return text(effects);
  }
  /// Returns all packets that are sent now.
  std::string out() {
    std::string lines;
    while (responder.has_output()) append(lines, next());
    OutgoingPacket none;
    EXPECT_FALSE(responder.poll_transmit(none));
    return lines;
  }
  /// Returns one packet that is sent.
  std::string next() {
    OutgoingPacket packet;
    if (!responder.poll_transmit(packet)) return "";
    EXPECT_EQ(packet.headers.bth.dest_qp, Qpn(0x42));
    EXPECT_EQ(packet.headers.bth.pkey, PKey{0x8001});
    EXPECT_EQ((packet.payload.length + packet.headers.bth.pad_count) % 4, 0u);
    return text(packet);
  }
  std::string region_error() {
    ResponderEffects effects;
    responder.on_region_error(effects);
    return text(effects);
  }
  std::string receive_memory_error() {
    ResponderEffects effects;
    responder.on_receive_memory_error(effects);
    return text(effects);
  }
  std::string read_error() {
    ResponderEffects effects;
    responder.on_read_error(effects);
    return text(effects);
  }
  /// Returns the expected PSN, counted from the first one.
  std::int32_t expected() const { return distance(start_, responder.expected_psn()); }
  std::size_t receives_left() const { return receives_.size(); }

  Responder responder;
  MemoryKey key{};         // The region that requests use by default.
  std::uint64_t word = 0;  // The 8 bytes for atomics.
  int executed_atomics = 0;
  bool answer_atomics = true;
  int established = 0;

 private:
  static region::Region region(std::uint32_t access, PdNumber pd) {
    return {.address = kRegionStart,
            .length = kRegionBytes,
            .iova = kRegionStart,
            .access = access,
            .pd = pd};
  }

  std::optional<PdNumber> domain_of(SrqNumber srq) override {
    if (srq == kSrq) return kPd;
    if (srq == kOtherSrq) return kOtherPd;
    return std::nullopt;
  }
  bool take(const wire::Packet&, Receive& out) override {
    if (receives_.empty()) return false;
    out = receives_.front();
    receives_.pop_front();
    return true;
  }

  wire::Packet packet_of(const Request& request) const {
    static constexpr std::array<std::byte, 8192> kPayload{};
    const Service service =
        request.service == Service::rc ? responder.config().service : request.service;
    wire::Packet packet;
    packet.headers = request.headers;
    packet.headers.xrc_eth.srq = request.srq_number;
    packet.headers.bth.opcode = wire::opcode_of(service, request.verb, request.position,
                                                request.has_immediate, request.has_invalidate);
    packet.headers.bth.psn = start_ + static_cast<std::uint32_t>(request.psn);
    if (!request.own_key) packet.headers.reth.key = packet.headers.atomic_eth.key = key;
    packet.payload = ByteSpan(kPayload).first(request.bytes);
    return packet;
  }

  static void append(std::string& lines, const std::string& line) {
    if (!lines.empty()) lines += ", ";
    lines += line;
  }

  std::string text(const ResponderEffects& effects) {
    std::string lines;
    for (const ResponderEffect& effect : effects) {
      const std::string line =
          std::visit([this](const auto& one) { return describe(one); }, effect);
      if (!line.empty()) append(lines, line);
    }
    return lines;
  }
  std::string describe(const PlaceReceive& place) {
    return fmt::format("place #{} +{} {}", place.ticket, place.offset, place.payload.size());
  }
  std::string describe(const PlaceWrite& place) {
    return fmt::format("write +{} {}", place.address - kRegionStart, place.payload.size());
  }
  std::string describe(const ExecuteAtomic& atomic) {
    ++executed_atomics;
    const std::uint64_t original = word;
    if (!atomic.compare_and_swap) word += atomic.compare_add;
    if (atomic.compare_and_swap && word == atomic.compare_add) word = atomic.swap;
    if (answer_atomics) responder.on_atomic_result(original);
    return atomic.compare_and_swap ? "compare-swap" : "fetch-add";
  }
  std::string describe(const ExecuteAtomicWrite& write) {
    ++executed_atomics;
    if (answer_atomics) responder.on_atomic_result(0);
    return fmt::format("atomic-write +{}", write.address - kRegionStart);
  }
  std::string describe(const ExecuteFlush& flush) {
    if (answer_atomics) responder.on_atomic_result(0);
    return fmt::format("flush {}", flush.placement);
  }
  std::string describe(const InvalidateKey& invalidate) {
    if (regions_.invalidate(invalidate.key, {kPd, kOwnQpn})) return "invalidate";
    return "invalidate?";
  }
  std::string describe(const CompleteReceive& complete) {
    static constexpr std::array kNames{"success", "length-error", "qp-error", "?",
                                       "protection-error"};
    return fmt::format("complete #{} {}", complete.ticket, kNames.at(raw(complete.status))) +
           (complete.status == Status::success ? fmt::format(" {}", complete.byte_count) : "") +
           (complete.is_write ? " write" : "") +
           (complete.has_immediate ? fmt::format(" immediate {}", complete.immediate) : "") +
           (complete.has_invalidated_key ? " invalidated" : "") +
           (complete.solicited ? " solicited" : "");
  }
  std::string describe(const Established&) {
    ++established;
    return "";
  }
  std::string describe(const ResponderFailed& failed) {
    static constexpr std::array kNames{"none", "request", "access", "fatal"};
    return fmt::format("fail {}", kNames.at(static_cast<std::size_t>(failed.event)));
  }

  std::string text(const OutgoingPacket& packet) const {
    static constexpr std::array kNaks{"nak-sequence", "nak-request", "nak-access",
                                      "nak-operational"};
    static constexpr std::array kPositions{"first", "middle", "last", "only"};
    const wire::OpcodeInfo& info = wire::info(packet.headers.bth.opcode);
    const wire::Aeth& aeth = packet.headers.aeth;
    const int psn = distance(start_, packet.headers.bth.psn);
    switch (info.verb) {
      case Verb::read_response:
        return fmt::format("{} {}", kPositions.at(static_cast<std::size_t>(info.position)), psn) +
               (packet.payload.from == PayloadSource::From::region
                    ? fmt::format(" +{} {}", packet.payload.address - kRegionStart,
                                  packet.payload.length)
                    : " empty");
      case Verb::atomic_acknowledge:
        return fmt::format("atomic {} = {}", psn, packet.headers.atomic_ack);
      default:
        break;
    }
    if (aeth.syndrome.is_rnr_nak()) {
      return fmt::format("rnr {} timer {}", psn, aeth.syndrome.rnr_timer_code());
    }
    if (aeth.syndrome.is_nak()) {
      return fmt::format("{} {}", kNaks.at(static_cast<std::size_t>(aeth.syndrome.nak_code())),
                         psn);
    }
    EXPECT_EQ(aeth.syndrome.credit_count(), wire::kCreditsInvalid);
    return fmt::format("ack {} msn {}", psn, aeth.msn.value());
  }

  Psn start_;
  region::RegionTableHeader header_;
  std::vector<region::RegionEntry> entries_;
  region::RegionTable regions_;
  std::deque<Receive> receives_;
  std::uint64_t tickets_ = 0;
};

/// First PSNs that put the wrap, and the middle of the PSN range, at each step of the ladders.
class AtEveryWrap : public testing::TestWithParam<std::uint32_t> {
 protected:
  Psn start() const { return Psn(GetParam()); }
};
inline constexpr std::array<std::uint32_t, 12> kStarts{0,        1,        0xfffff8, 0xfffff9,
                                                       0xfffffa, 0xfffffb, 0xfffffc, 0xfffffd,
                                                       0xfffffe, 0xffffff, 0x7fffff, 0x800000};

}  // namespace verbatim::transport::bench

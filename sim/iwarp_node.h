#pragma once

#include <cstring>
#include <deque>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "base/assert.h"
#include "base/overloaded.h"
#include "transport/iwarp/endpoint.h"
#include "transport/iwarp/stream.h"

/// One end of an iWARP stream: the real engine with memory, a region and receive requests, without
/// an adapter. It asserts that requests complete once and in order, and that no byte outside the
/// granted memory is written. It records other events in words.
namespace verbatim::sim::iwarp {

using namespace transport;         // NOLINT(google-build-using-namespace): the engine's words.
using namespace transport::iwarp;  // NOLINT(google-build-using-namespace)

inline constexpr std::uint64_t kRegionStart = 0x10000;
inline constexpr std::uint32_t kEveryRight =
    region::kRemoteWrite | region::kRemoteRead | region::kRemoteAtomic | region::kLocalWrite;
inline constexpr PdNumber kPd{3};
inline constexpr Qpn kOwnQpn{0x17};

using Bytes = std::vector<std::byte>;

inline Bytes pattern(std::size_t size, unsigned seed = 1) {
  Bytes bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(i * 31 + seed * 7);
  return bytes;
}

class Node final : private ReceiveSource {
 public:
  explicit Node(const StreamOptions& options = {}, std::size_t memory_bytes = 0x10000)
      : endpoint(64),
        memory(memory_bytes),
        reader_(options),
        writer_(options),
        entries_(8),
        regions_((region::RegionTable::initialise(header_, 1), header_), entries_) {
    key = add_region(kEveryRight);
  }

  void configure(std::uint32_t segment_bytes_max = 200, std::uint8_t reads = 4,
                 std::uint32_t access = kEveryRight) {
    endpoint.configure({.requester = {segment_bytes_max, reads},
                        .responder = {.segment_bytes_max = segment_bytes_max,
                                      .max_dest_rd_atomic = reads,
                                      .access = access,
                                      .pd = kPd,
                                      .own_qp = kOwnQpn}});
  }
  MemoryKey add_region(std::uint32_t access, PdNumber pd = kPd) {
    return *regions_.add({.address = kRegionStart,
                          .length = memory.size(),
                          .iova = kRegionStart,
                          .access = access,
                          .pd = pd});
  }
  /// Adds a type 2 window on the region's first bytes.
  MemoryKey add_window(std::uint64_t bytes) {
    const MemoryKey shown = add_region(kEveryRight | region::kMwBind);
    const MemoryKey window = *regions_.add_window(region::EntryKind::window_2, kPd);
    const auto bound = regions_.bind({.window = window,
                                      .key = window,
                                      .region = shown,
                                      .address = kRegionStart,
                                      .length = bytes,
                                      .access = region::kRemoteWrite},
                                     {kPd, kOwnQpn});
    VERBATIM_ASSERT(bound);
    return window;
  }

  /// Posts a request with these bytes, or for that many.
  void post(SendRequest request, Bytes bytes = {}) {
    if (request.length == 0) request.length = bytes.size();
    bytes.resize(request.length);
    const Slot slot = endpoint.requester().post(request);
    requests.resize(slot + 1);
    requests[slot] = std::move(bytes);
  }
  void post_receive(std::size_t capacity) { receives.emplace_back(capacity); }

  /// Returns all bytes that are sent now, as in the stream; what is handed over completes.
  Bytes out() {
    Bytes stream;
    OutgoingSegment segment;
    while (endpoint.poll_transmit(segment)) append(segment, stream);
    RequesterEffects effects;
    endpoint.requester().on_handed_over(effects);
    drain(effects);
    return stream;
  }
  /// Returns one segment that is sent, without MPA's framing.
  Bytes next() {
    OutgoingSegment segment;
    if (!endpoint.poll_transmit(segment)) return {};
    return bytes_of(segment);
  }
  /// Receives bytes of the stream.
  void in(const Bytes& stream) {
    arrived_.insert(arrived_.end(), stream.begin(), stream.end());
    std::size_t at = 0;
    while (!endpoint.ended()) {
      const auto found = reader_.next(std::span(arrived_).subspan(at));
      if (!found) {
        ResponderEffects effects;
        endpoint.on_stream_error(found.error(), effects);
        drain(effects);
      } else if (*found) {
        at += (*found)->bytes;
        on_segment((*found)->segment);
      } else {
        break;
      }
    }
    arrived_.erase(arrived_.begin(), arrived_.begin() + static_cast<std::ptrdiff_t>(at));
  }
  void on_segment(ByteSpan segment) {
    RequesterEffects to_requester;
    ResponderEffects to_responder;
    endpoint.on_segment(segment, *this, regions_, to_requester, to_responder);
    drain(to_requester);
    drain(to_responder);
  }
  void flush() {
    RequesterEffects effects;
    endpoint.requester().flush(effects);
    drain(effects);
  }
  void drain(RequesterEffects& effects) {
    for (bool more = true; more;) {
      for (const auto& effect : effects.list) apply(effect);
      more = effects.more;
      effects = {};
      if (more) endpoint.requester().resume(effects);
      more |= !effects.list.empty();
    }
  }
  /// Returns the events since the last call: a word for each completion and event.
  std::string said() { return std::exchange(said_, {}); }

  Endpoint endpoint;
  Bytes memory;  // The region, from kRegionStart on.
  MemoryKey key{};
  std::vector<Bytes> requests;  // By slot.
  std::deque<Bytes> receives;   // Those that were taken stay at the front.
  bool refuses_placements = false;

 private:
  bool take(Receive& out) override {
    if (taken_ == receives.size()) return false;
    out = {.ticket = taken_, .capacity_bytes = receives[taken_].size()};
    ++taken_;
    return true;
  }
  void say(const std::string& word) { said_ += (said_.empty() ? "" : ", ") + word; }
  std::byte* at(std::uint64_t address, std::size_t length) {
    VERBATIM_ASSERT(address >= kRegionStart && address - kRegionStart + length <= memory.size());
    return memory.data() + (address - kRegionStart);
  }

  Bytes bytes_of(const OutgoingSegment& segment) {
    Bytes bytes(segment.bytes());
    encode(segment.header, bytes);
    auto* to = bytes.data() + segment.header.size();
    std::ranges::copy(segment.body.bytes(), to);
    const PayloadSource& payload = segment.payload;
    const std::byte* const from = payload.from == PayloadSource::From::request
                                      ? requests[payload.slot].data() + payload.offset
                                      : nullptr;
    if (payload.length == 0) return bytes;
    std::memcpy(to, from != nullptr ? from : at(payload.address, payload.length), payload.length);
    return bytes;
  }
  void append(const OutgoingSegment& segment, Bytes& stream) {
    const Bytes bytes = bytes_of(segment);
    Bytes fpdu(writer_.bytes_of(bytes.size()));
    std::ranges::copy(bytes, fpdu.begin() + wire::kFpduLengthBytes);
    writer_.write(fpdu, bytes.size());
    stream.insert(stream.end(), fpdu.begin(), fpdu.end());
  }

  void drain(ResponderEffects& effects) {
    for (std::size_t i = 0; i < effects.size(); ++i) {
      if (apply(effects[i])) continue;
      ResponderEffects instead;
      endpoint.on_region_error(instead);
      return drain(instead);
    }
  }
  void apply(const RequesterEffect& effect) {
    std::visit(
        Overloaded{
            [this](const PlaceResponse& place) {
              VERBATIM_ASSERT(place.offset + place.payload.size() <= requests[place.slot].size());
              std::ranges::copy(place.payload, &requests[place.slot][place.offset]);
            },
            [this](const PlaceAtomic& place) { say(fmt::format("found {}", place.original)); },
            [this](const CompleteRequest& done) {
              VERBATIM_ASSERT(done.slot == completed_);
              ++completed_;
              say(fmt::format("request {}: {}", done.slot, raw_status(done.status)));
            },
            [this](const RequesterFailed& failed) {
              say(fmt::format("requester failed: {}", raw_status(failed.status)));
            }},
        effect);
  }
  bool apply(const ResponderEffect& effect) {
    return std::visit(
        Overloaded{
            [this](const PlaceReceive& place) {
              std::ranges::copy(place.payload, receives[place.ticket].begin() +
                                                   static_cast<std::ptrdiff_t>(place.offset));
              return true;
            },
            [this](const PlaceWrite& place) {
              if (refuses_placements) return false;
              std::ranges::copy(place.payload, at(place.address, place.payload.size()));
              return true;
            },
            [this](const ExecuteAtomic& atomic) {
              std::uint64_t word;
              std::memcpy(&word, at(atomic.address, sizeof word), sizeof word);
              endpoint.responder().on_atomic_result(word);
              const bool swaps = !atomic.compare_and_swap || word == atomic.compare_add;
              const std::uint64_t value =
                  atomic.compare_and_swap ? atomic.swap : word + atomic.compare_add;
              if (swaps) std::memcpy(at(atomic.address, sizeof value), &value, sizeof value);
              return true;
            },
            [this](const InvalidateKey& invalidate) {
              return regions_.invalidate(invalidate.key, {kPd, kOwnQpn}).has_value();
            },
            [this](const CompleteReceive& done) {
              say(describe(done));
              return true;
            },
            [this](const ResponderFailed& failed) {
              static constexpr const char* kEvents[] = {"none", "request", "access", "fatal"};
              say(fmt::format("failed: {}", kEvents[static_cast<int>(failed.event)]));
              return true;
            },
            [](const auto&) { return true; }},
        effect);
  }
  static int raw_status(Status status) { return static_cast<int>(status); }
  static std::string describe(const CompleteReceive& done) {
    std::string text =
        done.status == Status::success
            ? fmt::format("receive {}: {} bytes", done.ticket, done.byte_count)
            : fmt::format("receive {}: status {}", done.ticket, raw_status(done.status));
    if (done.is_write) text += " written";
    if (done.has_immediate) text += fmt::format(" immediate {:#x}", done.immediate);
    if (done.has_invalidated_key) text += " invalidated";
    if (done.solicited) text += " solicited";
    return text;
  }

  FpduReader reader_;
  FpduWriter writer_;
  Bytes arrived_;
  std::size_t taken_ = 0;  // Number of receive requests taken.
  Slot completed_ = 0;
  std::string said_;
  region::RegionTableHeader header_;
  std::vector<region::RegionEntry> entries_;
  region::RegionTable regions_;
};

/// Exchanges data between two nodes until neither sends.
inline void exchange(Node& a, Node& b) {
  for (bool more = true; more;) {
    const Bytes to_b = a.out();
    b.in(to_b);
    const Bytes to_a = b.out();
    a.in(to_a);
    more = !to_a.empty() || !to_b.empty();
  }
}

}  // namespace verbatim::sim::iwarp

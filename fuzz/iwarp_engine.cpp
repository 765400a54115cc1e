// Any segments in any order, at any time, to one end of an iWARP stream that has its own requests
// outstanding. Each request completes once and in the order of posting, and no memory is accessed
// that was not granted (the node asserts both).
#include <array>
#include <cstring>

#include "base/assert.h"
#include "fuzz/input.h"
#include "sim/iwarp_node.h"

namespace {

using namespace verbatim;
using namespace verbatim::sim::iwarp;

constexpr std::size_t kMemoryBytes = 4096;
constexpr std::size_t kRequestBytesMax = 4096;

class Attack {
 public:
  explicit Attack(Input& input) : input_(input), host_({}, kMemoryBytes) {
    host_.configure(64 + input.byte() * 4, static_cast<std::uint8_t>(1 + input.byte() % 8));
    other_key_ = host_.add_region(region::kRemoteRead, PdNumber{9});
    window_ = host_.add_window(100);
  }

  void run() {
    while (!input_.empty()) step();
    host_.flush();
    VERBATIM_ASSERT(host_.endpoint.requester().outstanding() == 0);
  }

 private:
  void step() {
    switch (input_.byte() % 8) {
      case 0:
        return post();
      case 1:
        return host_.post_receive(input_.two() % kRequestBytesMax);
      case 2:
        if (const Bytes segment = host_.next(); !segment.empty())
          VERBATIM_ASSERT(is_right(segment));
        return;
      case 3:
        static_cast<void>(host_.out());
        return;
      default:
        return arrive();
    }
  }
  static bool is_right(const Bytes& segment) {
    const auto header = wire::decode_ddp(segment);
    return header && wire::rdmap_opcode(*header);
  }
  void post() {
    constexpr std::array kOperations{Operation::send,
                                     Operation::write,
                                     Operation::read,
                                     Operation::fetch_and_add,
                                     Operation::compare_and_swap,
                                     Operation::write_with_immediate,
                                     Operation::send_with_invalidate};
    if (host_.endpoint.requester().full()) return;
    SendRequest request{.operation = kOperations[input_.byte() % kOperations.size()]};
    const std::uint32_t flags = input_.byte();
    request.fence = (flags & 1) != 0;
    request.solicited = (flags & 2) != 0;
    request.length = is_atomic(request.operation) ? 8 : input_.two() % kRequestBytesMax;
    host_.post(request);
  }
  MemoryKey some_key() {
    switch (input_.byte() % 4) {
      case 0:
        return other_key_;
      case 1:
        return window_;
      case 2:
        return MemoryKey{input_.byte()};  // Also the sink STags of our own READs.
      default:
        return host_.key;
    }
  }
  /// Close to both ends of the region.
  std::uint64_t some_address() { return kRegionStart - 64 + input_.two() % (kMemoryBytes + 128); }

  /// Receives a segment whose fields the fuzzer chooses.
  void arrive() {
    const auto opcode = static_cast<wire::RdmapOpcode>(input_.byte() % 16);
    wire::Ddp header;
    set_rdmap(header, opcode, raw(some_key()));
    const std::uint32_t flags = input_.byte();
    header.last = (flags & 1) != 0;
    if ((flags & 2) != 0) header.queue = input_.byte() % 5;
    if ((flags & 4) != 0) header.tagged = !header.tagged;
    header.stag = raw(some_key());
    header.offset = (flags & 8) != 0 ? some_address() : input_.two();
    header.message_number = (flags & 16) != 0 ? input_.byte() : ++numbers_[header.queue % 4];
    header.message_offset = (flags & 32) != 0 ? input_.two() : 0;
    Bytes segment(header.size());
    encode(header, segment);
    append_payload(opcode, segment);
    host_.on_segment(segment);
  }
  void append_payload(wire::RdmapOpcode opcode, Bytes& segment) {
    const std::size_t at = segment.size();
    segment.resize(at + wire::RdmapAtomicRequest::kSize);
    const std::span<std::byte> payload(&segment[at], wire::RdmapAtomicRequest::kSize);
    std::size_t size = input_.byte();
    if (opcode == wire::RdmapOpcode::read_request) {
      size = wire::RdmapReadRequest::kSize;
      encode(wire::RdmapReadRequest{.sink_stag = input_.byte(),
                                    .length = input_.two(),
                                    .source_stag = raw(some_key()),
                                    .source_offset = some_address()},
             payload.first<wire::RdmapReadRequest::kSize>());
    } else if (opcode == wire::RdmapOpcode::atomic_request) {
      size = wire::RdmapAtomicRequest::kSize;
      encode(wire::RdmapAtomicRequest{.operation = static_cast<wire::RdmapAtomicRequest::Operation>(
                                          input_.byte() % 3),
                                      .stag = raw(some_key()),
                                      .offset = some_address(),
                                      .add_or_swap = 1},
             payload.first<wire::RdmapAtomicRequest::kSize>());
    } else if (opcode == wire::RdmapOpcode::atomic_response) {
      size = wire::RdmapAtomicResponse::kSize;
      encode(wire::RdmapAtomicResponse{.identifier = input_.byte()},
             payload.first<wire::RdmapAtomicResponse::kSize>());
    }
    segment.resize(at + size);
  }

  Input& input_;
  Node host_;
  MemoryKey other_key_{}, window_{};
  std::array<std::uint32_t, 4> numbers_{};
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Input input(data, size);
  Attack(input).run();
  return 0;
}

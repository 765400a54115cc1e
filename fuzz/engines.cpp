// Any packets in any order, at any time, to one end of a connection that has its own requests
// outstanding: requester and responder of RC, UC or XRC. Each posted request completes at most once
// and in the order of posting, and no memory outside the node's is accessed.
#include <algorithm>

#include "base/assert.h"
#include "fuzz/input.h"
#include "sim/pair.h"

namespace {

using namespace verbatim;
using transport::Operation;
using wire::Service;

constexpr std::size_t kPayloadMax = 4200;  // More than any MTU.
constexpr std::array kServices{Service::rc, Service::uc, Service::xrc};
constexpr std::array kOfRc{Operation::send,          Operation::write,
                           Operation::read,          Operation::flush,
                           Operation::fetch_and_add, Operation::write_with_immediate};
constexpr std::array kOfUc{Operation::send, Operation::write, Operation::write_with_immediate};

class Attack {
 public:
  Attack(Input& input, const sim::PairOptions& options)
      : input_(input), options_(options), pair_(options, {}, 1), victim_(pair_[0]) {}

  void run() {
    while (!input_.empty()) step();
    const sim::Violations& violations = victim_.sends().violations();
    for (const std::string& one : violations) std::fprintf(stderr, "%s\n", one.c_str());
    VERBATIM_ASSERT(violations.empty());
  }

 private:
  void step() {
    switch (input_.byte() % 8) {
      case 0:
        return post();
      case 1:
        return victim_.post_receive({1024 * (input_.byte() % 8), input_.two() % 1024});
      case 2:
        return transmit();
      case 3:
        if (victim_.deadline() != kNever) now_ = std::max(now_, victim_.deadline());
        return victim_.on_time(now_);
      default:
        return arrive();
    }
  }
  void post() {
    if (victim_.requester().full() || victim_.requester().failed()) return;
    transport::SendRequest request;
    request.operation = options_.service == Service::uc ? kOfUc[input_.byte() % kOfUc.size()]
                                                        : kOfRc[input_.byte() % kOfRc.size()];
    request.length = transport::is_atomic(request.operation) ? 8 : input_.two() % 8192;
    if (request.operation == Operation::flush) {
      request.length = 0;
      request.flush = {.placement = wire::Feth::kGlobal};
    }
    request.remote_address = sim::Node::remote_address(0);
    request.remote_key = victim_.key();
    request.remote_srq = sim::Node::kSrq;
    victim_.post(request, {0, request.length});
  }
  void transmit() {
    if (!victim_.responder_failed()) victim_.pump(now_, pair_.network());
    while (pair_.network().next_arrival() != kNever) {
      pair_.network().deliver_next([](int, ByteSpan) {});
      ++sent_;
    }
  }
  Psn near(Psn base) {
    return base + static_cast<std::uint32_t>(static_cast<std::int8_t>(input_.byte()));
  }
  /// Receives a packet whose opcode, PSN, lengths and keys the fuzzer chooses.
  void arrive() {
    wire::Headers headers;
    headers.bth.opcode = static_cast<wire::Opcode>(input_.byte());
    const std::uint32_t flags = input_.byte();
    headers.bth.pad_count = flags & 3;
    headers.bth.ack_request = (flags & 4) != 0;
    headers.bth.solicited_event = (flags & 8) != 0;
    headers.bth.psn = near(options_.first_psn + ((flags & 16) != 0 ? sent_ : came_));
    headers.xrc_eth.srq = (flags & 32) != 0 ? SrqNumber(input_.byte()) : sim::Node::kSrq;
    const MemoryKey key = (flags & 64) != 0 ? MemoryKey(input_.two()) : victim_.key();
    const std::uint64_t address = sim::Node::remote_address(input_.two() << 1);
    headers.reth = {.address = address, .key = key, .length = input_.two()};
    headers.atomic_eth = {.address = address, .key = key, .swap_or_add = 1};
    headers.feth = {.placement = static_cast<std::uint8_t>(input_.byte())};
    headers.invalidate_key = key;
    if (const auto syndrome = wire::Syndrome::from_wire(static_cast<std::uint8_t>(input_.byte()))) {
      headers.aeth = {*syndrome, wire::Msn(input_.byte())};
    }
    if (!wire::info(headers.bth.opcode).known) return;
    std::vector<std::byte> bytes(wire::kHeadersMaxBytes);
    bytes.resize(wire::encode_headers(headers, bytes));
    bytes.resize(bytes.size() + input_.two() % kPayloadMax);
    if (!wire::decode_packet(bytes)) return;
    ++came_;
    victim_.on_arrival(bytes, now_);
  }
  Input& input_;
  const sim::PairOptions options_;
  sim::Pair pair_;
  sim::Node& victim_;
  TimeNs now_ = kSecond;
  std::uint32_t sent_ = 0, came_ = 0;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Input input(data, size);
  sim::PairOptions options;
  options.service = kServices[input.byte() % kServices.size()];
  options.path_mtu = static_cast<Mtu>(1 + input.byte() % 5);
  options.first_psn = Psn(input.byte() - 128);  // On either side of the wrap.
  options.retry_count = options.rnr_retry = static_cast<std::uint8_t>(input.byte() % 8);
  Attack(input, options).run();
  return 0;
}

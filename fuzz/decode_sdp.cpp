// Any bytes as SDP's messages: what is decoded can be encoded again, and an end of a connection
// takes them in any order without a wrong piece of a receive.
#include <algorithm>
#include <array>
#include <vector>

#include "base/assert.h"
#include "input.h"
#include "ulp/sdp/stream.h"

namespace {

using namespace verbatim;
using namespace verbatim::ulp::sdp;

void check_round_trip(ByteSpan bytes) {
  if (const auto message = decode_message(bytes)) {
    std::array<std::byte, kMostHead> head{};
    const std::size_t size = encode(message->header, message->body, head);
    VERBATIM_ASSERT(size <= bytes.size());
    auto again = std::vector<std::byte>(bytes.begin(), bytes.end());
    std::copy_n(head.begin(), size, again.begin());
    const auto same = decode_message(again);
    VERBATIM_ASSERT(same && same->header == message->header && same->body == message->body);
  }
  if (const auto hello = decode_hello(bytes)) {
    std::array<std::byte, Hello::kSize> own{};
    encode(*hello, own);
    VERBATIM_ASSERT(decode_hello(own) == hello);
  }
  if (const auto ack = decode_hello_ack(bytes)) {
    std::array<std::byte, HelloAck::kSize> own{};
    encode(*ack, own);
    VERBATIM_ASSERT(decode_hello_ack(own) == ack);
  }
}

/// The message, with what the end expects in the fields that it compares, so that most go on.
void repair(std::vector<std::byte>& bytes, std::uint32_t sequence) {
  if (bytes.size() < Header::kSize) return;
  store_be(&bytes[4], static_cast<std::uint32_t>(bytes.size()));
  store_be(&bytes[8], sequence);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  check_round_trip(std::as_bytes(std::span(data, size)));
  Input input(data, size);
  constexpr Limits kOwn{.receives = 8, .receive_bytes = 256};
  Stream stream(kOwn);
  static_cast<void>(stream.on_hello(
      {.buffers = static_cast<std::uint16_t>(input.byte()), .own_bytes = input.two()}));
  std::vector<std::uint32_t> free;
  for (std::uint32_t slot = 0; slot < kOwn.receives; ++slot) free.push_back(slot);
  for (std::uint32_t sequence = 1; !input.empty(); ++sequence) {
    if (const std::uint32_t act = input.byte(); act < 16 && stream.room() > 0)
      stream.data(1, act == 0);
    if (!free.empty()) {
      std::vector<std::byte> bytes(input.byte());
      for (std::byte& byte : bytes) byte = static_cast<std::byte>(input.byte());
      if (input.byte() < 250) repair(bytes, sequence);
      const std::uint32_t slot = free.back();
      free.pop_back();
      if (stream.on_message(slot, bytes) == Stream::Use::again) free.push_back(slot);
    }
    while (stream.next_control()) {
    }
    if (stream.has_data() && input.byte() < 128) {
      const auto piece = stream.piece(0);
      VERBATIM_ASSERT(piece.bytes > 0 && piece.offset >= Header::kSize &&
                      piece.offset + piece.bytes <= 256);
      if (const auto slot = stream.consume(std::min(piece.bytes, 1 + input.byte())))
        free.push_back(*slot);
    }
    VERBATIM_ASSERT(stream.pieces() + free.size() == kOwn.receives);
  }
  return 0;
}

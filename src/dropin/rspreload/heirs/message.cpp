#include "dropin/rspreload/heirs/message.h"

#include <array>
#include <cerrno>
#include <cstddef>

#include "base/os/passed_descriptors.h"

// Calls in this file go to libc, by `Inside`.
namespace verbatim::rspreload {
namespace {

struct Text {
  std::uint32_t serial = 0;
  Word word{};
  std::array<std::uint8_t, 3> reserved{};
};

}  // namespace

bool send_over(int line, const LineMessage& message) {
  Text text{.serial = message.serial, .word = message.word};
  const iovec piece{&text, sizeof text};
  const int descriptor = message.descriptor.get();
  return send_message(line, {&piece, 1}, {&descriptor, message.descriptor ? 1u : 0u});
}

std::optional<LineMessage> receive_from(int line, int flags) {
  Text text;
  const iovec piece{&text, sizeof text};
  UniqueFd descriptor;
  const auto got = receive_message(line, {&piece, 1}, {&descriptor, 1}, flags);
  if (!got) return std::nullopt;
  if (got->bytes != sizeof text) {
    errno = got->bytes == 0 ? ECONNRESET : EPROTO;
    return std::nullopt;
  }
  return LineMessage{.word = text.word, .serial = text.serial, .descriptor = std::move(descriptor)};
}

}  // namespace verbatim::rspreload

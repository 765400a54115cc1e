#pragma once

#include <cstdint>
#include <optional>

#include "base/os/unique_fd.h"

/// What goes over the line between an owner of streams and its heirs: a SOCK_SEQPACKET pair, whose
/// heirs' end is inherited by their children.
namespace verbatim::rspreload {

enum class Word : std::uint8_t {
  ask,     // For the stream of that serial number. With a socket, over which it is sent.
  closed,  // The heir has closed it, and has no children that may have it.
  answer,  // With the shadow's descriptor.
};

struct LineMessage {
  Word word{};
  std::uint32_t serial = 0;
  UniqueFd descriptor;
};

bool send_over(int line, const LineMessage& message);
/// Without value if there is none yet (EAGAIN), or none any more.
std::optional<LineMessage> receive_from(int line, int flags);

}  // namespace verbatim::rspreload

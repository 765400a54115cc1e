// Any bytes from an SRP target, from those who look for targets on a fabric, and in a line for
// add_target. The first byte says which: a session that has logged in with two requests takes
// messages of any bytes; an agent answers any datagram; a line is parsed, and parses again.
#include <cerrno>
#include <memory>
#include <string>
#include <vector>

#include "base/assert.h"
#include "input.h"
#include "ulp/srp/device_management.h"
#include "ulp/srp/initiator/add_target_line.h"

namespace {

using namespace verbatim;
using namespace verbatim::ulp;

constexpr storage::Channel kChannel{};

void check_line(ByteSpan bytes) {
  const auto target =
      srp::parse_add_target({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  if (!target) {
    VERBATIM_ASSERT(target.error().code == EINVAL);
    return;
  }
  const std::string line = srp::text_of(*target);
  const auto again = srp::parse_add_target(line);
  VERBATIM_ASSERT(again && srp::text_of(*again) == line);
  VERBATIM_ASSERT(srp::settings_for(*target, 1).requests > 0);
}

void check_agent(ByteSpan bytes, unsigned count) {
  std::vector<Slice> pieces(srp::Ports::kPiecesPerChannel);
  srp::Ports ports({.channels = 1}, pieces);
  for (unsigned i = 0; i < count; ++i) {
    srp::PortId id{};
    id[7] = static_cast<std::byte>(i);
    id[15] = static_cast<std::byte>(i / 3);
    static_cast<void>(ports.add(srp::Port(id, "port")));
  }
  srp::DeviceManagement agent(ports, 1);
  std::array<std::byte, wire::kMadBytes> request{}, response{};
  std::ranges::copy(bytes.first(std::min(bytes.size(), request.size())), request.begin());
  static_cast<void>(agent.answer(request, response));
}

/// After the login the target answers what it is asked first: with the input's bytes, too.
void check_session(Input& input) {
  std::vector<std::byte> scratch(storage::kScratchBytes), data(16384);
  const auto memory_of = [](std::vector<std::byte>& memory) {
    return storage::PeerMemory{{memory.data(), static_cast<std::uint32_t>(memory.size()), {}}, {}};
  };
  srp::Initiator initiator({}, memory_of(scratch));
  storage::InitiatorOutput out;
  TimeNs now = 0;
  unsigned taken = 0, answered = 0;
  const auto drain = [&] {
    answered += static_cast<unsigned>(out.answers.size());
    while (out.more) {
      out.clear();
      initiator.resume(now, out);
      answered += static_cast<unsigned>(out.answers.size());
    }
    out.clear();
  };
  initiator.begin(now, out);
  drain();
  const auto login = encode(srp::LoginResponse{.request_limit = 8,
                                               .request_bytes = 8260,
                                               .response_bytes = 8260,
                                               .flags = srp::kImmediateData});
  initiator.on_established(kChannel, login, now, out);
  drain();
  while (!input.empty()) {
    const std::uint32_t kind = input.byte();
    if (kind % 4 == 0 && initiator.facts() != nullptr) {
      const auto bytes = initiator.facts()->block_bytes;
      taken += initiator.on_request({.kind = kind % 8 == 0 ? storage::DiskRequest::Kind::write
                                                           : storage::DiskRequest::Kind::read,
                                     .bytes = bytes,
                                     .memory = memory_of(data),
                                     .user = Tag{taken + 1}},
                                    now, out);
      drain();
    } else if (kind % 4 == 1) {
      now += kSecond << (kind / 64 * 3);
      initiator.on_time(now, out);
      drain();
    } else if (kind % 4 == 2) {
      initiator.on_done(kChannel, Tag{input.two()}, CompletionStatus::success, now, out);
      drain();
    } else {
      std::vector<std::byte> message(1 + input.byte());
      for (std::byte& byte : message) byte = static_cast<std::byte>(input.byte());
      initiator.on_message(
          kChannel, {.memory = {message.data(), static_cast<std::uint32_t>(message.size()), {}}},
          now, out);
      drain();
    }
    VERBATIM_ASSERT(answered <= taken);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const ByteSpan rest = std::as_bytes(std::span(data, size)).subspan(1);
  Input input(data + 1, size - 1);
  if (data[0] % 3 == 0) {
    check_line(rest);
  } else if (data[0] % 3 == 1) {
    check_agent(rest, data[0]);
  } else {
    check_session(input);
  }
  return 0;
}

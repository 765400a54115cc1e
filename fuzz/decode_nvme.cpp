// Any bytes as a command of NVMe, its Connect, the private data of a queue: the encoder writes
// again what decoding accepts.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/assert.h"
#include "ulp/nvmeof/reservations/reservations.h"
#include "ulp/nvmeof/wire/connect.h"
#include "ulp/nvmeof/wire/log_pages.h"

namespace {

using namespace verbatim;
using namespace verbatim::ulp::nvmeof;

template <typename AnyCommand, typename Decode>
void check_command(const std::expected<AnyCommand, WireError>& command, Decode decode) {
  if (!command || command->data.kind == DataDescriptor::Kind::unknown) return;
  std::array<std::byte, AnyCommand::kSize> out;
  encode(*command, out);
  VERBATIM_ASSERT(decode(out) == command);
}

void check_connect(ByteSpan bytes) {
  const auto data = decode_connect_data(bytes);
  if (!data) return;
  std::array<std::byte, ConnectData::kSize> out;
  encode(*data, out);
  VERBATIM_ASSERT(decode_connect_data(out) == data);
}

void check_request(ByteSpan bytes) {
  const auto request = decode_queue_request(bytes);
  if (!request) return;
  const auto out = encode(*request);
  VERBATIM_ASSERT(decode_queue_request({out.begin(), out.size()}) == request);
}

/// Commands of four hosts on one namespace, 64 bytes each, whose last 16 are the keys.
void check_reservations(ByteSpan bytes) {
  Reservations all;
  for (; bytes.size() >= Command::kSize; bytes = bytes.subspan(Command::kSize)) {
    const auto command = decode_command(bytes);
    static_cast<void>(report_request_of(*command));
    const ReservationKeys keys{load_le<std::uint64_t>(&bytes[48]),
                               load_le<std::uint64_t>(&bytes[56])};
    std::vector<ReservationNotice> notices;
    const HostId host{bytes[4] & std::byte{3}};
    static_cast<void>(all.change(host, reservation_change_of(*command, keys), notices));
    const ReservationReport report = all.report();
    const bool is_held = report.type != ReservationType::none;
    VERBATIM_ASSERT(report.entries.size() <= 4 && notices.size() <= 2 * 4);
    VERBATIM_ASSERT(is_held ==
                    std::ranges::any_of(report.entries, &ReservationReport::Entry::holds));
    static_cast<void>(encode(report));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const ByteSpan bytes(reinterpret_cast<const std::byte*>(data), size);
  check_command(decode_command(bytes), [](ByteSpan out) { return decode_command(out); });
  const auto admin = decode_admin_command(bytes);
  check_command(admin, [](ByteSpan out) { return decode_admin_command(out); });
  if (admin) {
    static_cast<void>(connect_of(*admin));
    static_cast<void>(property_of(*admin));
    const LogRequest request = log_request_of(*admin);
    AdminCommand again;
    put_log_request(request, again);
    VERBATIM_ASSERT(log_request_of(again).bytes == request.bytes);
  }
  check_connect(bytes);
  check_request(bytes);
  check_reservations(bytes);
  return 0;
}

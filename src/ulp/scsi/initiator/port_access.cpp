#include "ulp/scsi/initiator/port_access.h"

#include <algorithm>

#include "base/types.h"
#include "ulp/scsi/alua/access_state.h"
#include "ulp/scsi/initiator/received_sense.h"

namespace verbatim::ulp::scsi {

using storage::PathState;

namespace {

constexpr std::uint8_t kHasGroups = 0x30;  // TPGS in INQUIRY's byte 5.
constexpr std::uint16_t kRefusals[] = {0x040a, raw(SenseCode::port_in_standby),
                                       raw(SenseCode::port_unavailable),
                                       raw(SenseCode::port_offline)};

struct StateRow {
  AccessState state{};
  PathState path{};
};
constexpr StateRow kStates[] = {
    {AccessState::optimized, PathState::optimized},
    {AccessState::non_optimized, PathState::non_optimized},
    {AccessState::lba_dependent, PathState::non_optimized},
};

PathState path_of(AccessState state) {
  const auto row = std::ranges::find(kStates, state, &StateRow::state);
  return row == std::end(kStates) ? PathState::none : row->path;
}

/// A length, 4 bytes, then groups of 8 bytes and 4 for each port (SPC-4, 6.37). A group that the
/// report does not have is not reached.
PathState state_in(ByteSpan report, std::uint16_t group) {
  constexpr std::size_t kHeader = 4, kGroup = 8, kPort = 4;
  const std::size_t end =
      report.size() < kHeader
          ? 0
          : std::min<std::size_t>(report.size(), kHeader + load_be<std::uint32_t>(report.data()));
  for (std::size_t at = kHeader; at + kGroup <= end;) {
    const auto byte = [&](std::size_t i) { return std::to_integer<std::uint8_t>(report[at + i]); };
    if (load_be<std::uint16_t>(&report[at + 2]) == group)
      return path_of(AccessState{static_cast<std::uint8_t>(byte(0) & 0xf)});
    at += kGroup + kPort * byte(7);
  }
  return PathState::none;
}

}  // namespace

bool PortAccess::is_refusal(std::uint16_t sense_code) {
  return std::ranges::find(kRefusals, sense_code) != std::end(kRefusals);
}

void PortAccess::take_identity(ByteSpan data) {
  has_groups_ = data.size() > 5 && (std::to_integer<std::uint8_t>(data[5]) & kHasGroups) != 0;
}

DiskCommand PortAccess::command() {
  DiskCommand command{.direction = DataDirection::from_target, .data_bytes = kDataBytesMax};
  command.cdb[0] = std::byte{0xa3};
  command.cdb[1] = std::byte{0x0a};
  store_be(&command.cdb[6], kDataBytesMax);
  return command;
}

void PortAccess::on_report(Status status, ByteSpan sense, ByteSpan data, TimeNs now) {
  const auto key = read_sense(sense);
  if (status == Status::good) {
    state_ = state_in(data, *group_);
  } else if (key && key->key == SenseKey::illegal_request) {
    has_groups_ = false;  // There is no such report: the port is as good as any.
    state_ = PathState::optimized;
    return;
  }
  put_off(now);
  const bool is_attention = key && key->key == SenseKey::unit_attention;
  if (is_attention) ask_at_once(now);  // It was told first.
}

void PortAccess::on_answer(ByteSpan sense, TimeNs now) {
  const auto key = read_sense(sense);
  if (!key || !is_told()) return;
  const bool is_refused = is_refusal(key->code);
  // All that is under way is refused: the first of it is enough to ask.
  if ((is_refused && state_ != PathState::none) ||
      key->code == raw(SenseCode::access_state_changed))
    ask_at_once(now);
  if (is_refused) state_ = PathState::none;
}

}  // namespace verbatim::ulp::scsi

#include "arena/queue_pair_record.h"

#include <array>

namespace verbatim::arena {

const char* name_of(QpState state) {
  constexpr std::array kNames{"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"};
  return raw(state) < kNames.size() ? kNames[raw(state)] : "unknown";
}

const char* name_of(QpType type) {
  switch (type) {
    case QpType::rc:
      return "RC";
    case QpType::uc:
      return "UC";
    case QpType::ud:
      return "UD";
    case QpType::raw_packet:
      return "RAW_PACKET";
    case QpType::xrc_send:
      return "XRC_SEND";
    case QpType::xrc_receive:
      return "XRC_RECV";
  }
  return "unknown";
}

}  // namespace verbatim::arena

#pragma once

#include <stdint.h>

namespace infinity {
namespace core {

/// Infinity's constants. If a device has less, its own limit applies: a queue is then shorter.
class Configuration {
 public:
  static const uint32_t SEND_COMPLETION_QUEUE_LENGTH = 16351;
  static const uint32_t RECV_COMPLETION_QUEUE_LENGTH = 16351;
  static const uint32_t SHARED_RECV_QUEUE_LENGTH = 16351;
  static const uint32_t MAX_NUMBER_OF_OUTSTANDING_REQUESTS = 16351;
  /// What every device has. `multiWrite` takes up to four if the device allows it.
  static const uint32_t MAX_NUMBER_OF_SGE_ELEMENTS = 1;

  static const uint32_t PAGE_SIZE = 4096;  ///< Alignment of buffers that the library allocates.
  static const uint32_t MAX_CONNECTION_USER_DATA_SIZE = 1024;
  static constexpr const char* DEFAULT_IB_DEVICE = "ib0";
};

}  // namespace core
}  // namespace infinity

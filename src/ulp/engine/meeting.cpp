#include "ulp/engine/meeting.h"

#include <algorithm>

namespace verbatim::ulp {

PrivateData to_private_data(ByteSpan bytes) {
  PrivateData data;
  for (const std::byte byte : bytes.first(std::min(bytes.size(), data.capacity()))) data.push(byte);
  return data;
}

}  // namespace verbatim::ulp

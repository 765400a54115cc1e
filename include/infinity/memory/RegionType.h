#pragma once

namespace infinity {
namespace memory {

enum RegionType { BUFFER, ATOMIC, UNKNOWN };

}  // namespace memory
}  // namespace infinity

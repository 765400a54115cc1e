#pragma once

#include <array>

#include "base/bytes.h"

namespace verbatim::ulp::iscsi {

/// RFC 1321: the hash that every CHAP peer knows (RFC 1994). For nothing else.
using Md5 = std::array<std::byte, 16>;
Md5 md5(ByteSpan message);

}  // namespace verbatim::ulp::iscsi

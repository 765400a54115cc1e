#pragma once

#include <optional>
#include <vector>

#include "base/bytes.h"
#include "ulp/lnet/buffers.h"
#include "ulp/lnet/wire/lnet_header.h"

namespace verbatim::ulp::lnet {

/// A message of LNet with its payload: `header.payload_bytes`, in `small` or in `bulk`, which
/// belongs to whoever has the parcel. A GET's `bulk` is where the answer goes.
struct Parcel {
  LnetHeader header;
  std::vector<std::byte> small;
  std::optional<Buffer> bulk;

  ByteSpan payload() const {
    if (bulk && header.operation != Operation::get)
      return {bulk->memory.data, header.payload_bytes};
    return small;
  }
};

}  // namespace verbatim::ulp::lnet

#pragma once

#include <cstdint>

#include "wire/subnet/multicast_record.h"

namespace verbatim::mad {

/// Whether a group is as a member wants it, in the components that count (IBA 15.2.5.17.1). The
/// administrator compares only the first member's.
bool agrees(const wire::MulticastRecord& group, const wire::MulticastRecord& wanted,
            std::uint64_t components);

}  // namespace verbatim::mad

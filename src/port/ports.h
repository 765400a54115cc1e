#pragma once

#include <cstddef>
#include <cstdint>

#include "arena/infiniband_port.h"
#include "base/assert.h"
#include "base/error.h"
#include "base/inplace_vector.h"
#include "port/port.h"

namespace verbatim::port {

/// An adapter's ports by number, from 1: one, or two on a host of a fabric. It owns none.
class Ports {
 public:
  void add(Port& port) { ports_.push(&port); }
  std::size_t size() const { return ports_.size(); }
  /// EINVAL in words if there is no such port.
  Result<void> check(unsigned number) const;
  /// Requires that there is one.
  Port& at(unsigned number) const {
    VERBATIM_ASSERT(number >= 1 && number <= size());
    return *ports_[number - 1];
  }
  Port* const* begin() const { return ports_.begin(); }
  Port* const* end() const { return ports_.end(); }

 private:
  InplaceVector<Port*, arena::kInfinibandPortsMax> ports_;
};

}  // namespace verbatim::port

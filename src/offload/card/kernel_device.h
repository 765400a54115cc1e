#pragma once

#include <string>
#include <utility>

#include "base/error.h"
#include "base/os/unique_fd.h"
#include "offload/ring/module.h"

namespace verbatim::offload {

/// The kernel's driver of a card (kernel/ at the root of the tree), by its device. The memory of
/// both is the kernel's: the rings at offset 0, the packets at memory().offset.
class KernelDevice {
 public:
  /// ENOENT: the module is not loaded; EBUSY: it has another card; EPROTONOSUPPORT: it is of
  /// another version; EINVAL: its card had other ports or rules before.
  static Result<KernelDevice> attach(const std::string& path, const vnic_welcome& welcome);

  int fd() const { return fd_.get(); }
  std::uint64_t region_bytes() const { return attach_.welcome.region_bytes; }
  const vnic_memory& memory() const { return attach_.memory; }

  /// The descriptor is readable when the driver has rung, until this is called.
  void silence_doorbell() const;
  void interrupt() const;

 private:
  KernelDevice(UniqueFd fd, const vnic_attach& attach) : fd_(std::move(fd)), attach_(attach) {}
  UniqueFd fd_;
  vnic_attach attach_;
};

}  // namespace verbatim::offload

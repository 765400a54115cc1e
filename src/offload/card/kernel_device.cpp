#include "offload/card/kernel_device.h"

#include <cerrno>
#include <cstddef>
#include <cstring>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

namespace verbatim::offload {

Result<KernelDevice> KernelDevice::attach(const std::string& path, const vnic_welcome& welcome) {
  UniqueFd fd(open(path.c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC));
  if (!fd) {
    const int code = errno;
    const char* const advice = code == ENOENT  ? "; load the kernel module 'verbatim_nic'"
                               : code == EBUSY ? "; another card has it"
                                               : "";
    return refuse(code, fmt::format("device {}: {}{}", path, std::strerror(code), advice));
  }
  vnic_attach attach{.header = {VNIC_MAGIC, VNIC_VERSION, VNIC_HELLO}, .welcome = welcome};
  if (ioctl(fd.get(), VNIC_ATTACH, &attach) < 0) {
    const int code = errno;
    const char* const why = code == EINVAL            ? "; its last card had other ports or rules"
                            : code == EPROTONOSUPPORT ? "; the module is of another version"
                                                      : "";
    return refuse(code, fmt::format("device {}: {}{}", path, std::strerror(code), why));
  }
  return KernelDevice(std::move(fd), attach);
}

void KernelDevice::silence_doorbell() const {
  std::byte unused;
  [[maybe_unused]] const auto size = read(fd(), &unused, sizeof unused);
}

void KernelDevice::interrupt() const {
  const std::byte one{1};
  [[maybe_unused]] const auto size = write(fd(), &one, sizeof one);
}

}  // namespace verbatim::offload

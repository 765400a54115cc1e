#include "link/ethernet/ethernet.h"

#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "base/os/unique_fd.h"

namespace verbatim::link {
namespace {

Result<bool> is_loopback(const std::string& interface) {
  const UniqueFd fd(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ifreq request{};
  interface.copy(request.ifr_name, IFNAMSIZ - 1);
  if (!fd || ioctl(fd.get(), SIOCGIFFLAGS, &request) != 0) {
    return refuse_errno("flags of " + interface);
  }
  return (request.ifr_flags & IFF_LOOPBACK) != 0;
}

}  // namespace

Result<std::unique_ptr<EthernetPort>> EthernetPort::open(const EthernetIdentity& identity) {
  const auto made = [](auto link) -> Result<std::unique_ptr<EthernetPort>> {
    if (!link) return std::unexpected(link.error());
    return std::unique_ptr<EthernetPort>(new EthernetPort(std::move(*link)));
  };
  if (!identity.function.empty()) return made(FunctionFrames::open(identity.function));
  const auto emulated = is_loopback(identity.interface);
  if (!emulated) return std::unexpected(emulated.error());
  if (*emulated) return made(EthernetSegment::open(identity.address, identity.interface_index));
  return made(PacketInterface::open(identity.interface, identity.interface_index));
}

std::size_t EthernetPort::frame_bytes_max() const {
  return std::visit([](const auto& link) { return link.frame_bytes_max(); }, link_);
}

int EthernetPort::send(const FrameBatch& batch) const noexcept {
  return std::visit([&](const auto& link) { return link.send(batch); }, link_);
}

Result<int> EthernetPort::start_receiving() {
  return std::visit([](auto& link) { return link.start_receiving(); }, link_);
}

bool EthernetPort::begin_sleep() {
  auto* const function = std::get_if<FunctionFrames>(&link_);  // The kernel needs no word.
  return function == nullptr || function->begin_sleep();
}

void EthernetPort::stop_receiving() {
  std::visit([](auto& link) { link.stop_receiving(); }, link_);
}

}  // namespace verbatim::link

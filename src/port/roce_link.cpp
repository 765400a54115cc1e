#include "port/roce_link.h"

#include <utility>

#include "link/ethernet/function_link.h"
#include "link/ethernet/roce_v1_link.h"
#include "link/udp/udp_link.h"

namespace verbatim::port {
namespace {

template <typename L>
Result<std::unique_ptr<link::Link>> receiving(std::unique_ptr<L> link, int socket) {
  if (socket >= 0) {
    if (auto received = link->receive_from(socket); !received) {
      return std::unexpected(received.error());
    }
  }
  return link;
}

}  // namespace

Result<std::unique_ptr<link::Link>> make_roce_link(const SocketAddress& address,
                                                   std::uint32_t interface_index,
                                                   std::shared_ptr<link::UdpReceiver> buffers,
                                                   int socket, std::size_t sockets_max) {
  if (roce_version(address) == RoceVersion::v1) {
    return receiving(
        std::make_unique<link::RoceV1Link>(address, interface_index, std::move(buffers)), socket);
  }
  return receiving(
      std::make_unique<link::UdpLink>(address, interface_index, std::move(buffers), sockets_max),
      socket);
}

Result<std::shared_ptr<NodeFunction>> open_function(std::string_view function,
                                                    std::uint32_t qpn_range,
                                                    std::uint32_t qpn_shift, bool answers) {
  auto name = link::parse_function(function);
  if (!name) return std::unexpected(name.error());
  return std::make_shared<NodeFunction>(link::FunctionPlace{.name = std::move(*name),
                                                            .qpn_range = qpn_range,
                                                            .qpn_shift = qpn_shift,
                                                            .answers = answers});
}

Result<std::unique_ptr<link::Link>> make_function_link(
    const SocketAddress& address, const std::shared_ptr<NodeFunction>& function) {
  return link::FunctionLink::open(address, function);
}

}  // namespace verbatim::port

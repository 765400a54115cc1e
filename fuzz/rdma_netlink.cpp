// Any bytes as a datagram to RDMA netlink: what answers it is made of whole messages, each of which
// fits into a program's buffer, apart from the copy of a request that is refused.
#include <vector>

#include "agent/netlink/rdma_answers.h"
#include "base/assert.h"
#include "wire/netlink/message.h"

namespace {

using namespace verbatim;
using namespace verbatim::agent::netlink;

RdmaFacts facts() {
  ResourceFacts resources;
  for (std::uint32_t i = 0; i < 200; ++i) {
    resources.queue_pairs.push_back({.id = i, .port = 1, .type = 2});
    resources.regions.push_back({.id = i});
  }
  resources.contexts = {{.id = 1}};
  resources.identifiers = {{.id = 0, .port = 1, .source = SocketAddress::ipv4({127, 0, 0, 2}, 7)}};
  return {.device = {.name = "verbatim0", .ports = {{.number = 1, .interface = "lo"}}},
          .resources = [resources] { return resources; }};
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const RdmaFacts known = facts();
  const std::vector<std::byte> datagram(reinterpret_cast<const std::byte*>(data),
                                        reinterpret_cast<const std::byte*>(data) + size);
  for (const bool is_admin : {false, true}) {
    for (const auto& one : answer(datagram, known, {.port = 1, .has_admin_rights = is_admin})) {
      VERBATIM_ASSERT(one.size() <= kAnswerBytesMax + size);
      ByteSpan rest = one;
      VERBATIM_ASSERT(wire::netlink::take_message(rest) && rest.empty());
    }
  }
  return 0;
}

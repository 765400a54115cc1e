#include "test_util.h"

#include <future>

namespace kit {

using namespace verbatim;

std::string own_address(const Context& context) {
  const std::string text = context.gid().to_string();
  constexpr std::string_view kMapped = "::ffff:";
  return text.starts_with(kMapped) ? text.substr(kMapped.size()) : text;
}

std::pair<QueuePair, QueuePair> connect_both(const ProtectionDomain& domain,
                                             const ConnectOptions& asker,
                                             const ConnectOptions& peer) {
  Listener listener = Listener::open(domain).value();
  auto accepted = std::async(
      std::launch::async, [&] { return listener.accept(peer, std::chrono::seconds(10)).value(); });
  QueuePair connected =
      connect(domain, own_address(domain.context()), listener.port(), asker).value();
  return {std::move(connected), accepted.get()};
}

}  // namespace kit

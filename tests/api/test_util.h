#pragma once

#include <cstring>
#include <string>
#include <string_view>
#include <utility>

#include "verbatim/verbatim.h"

namespace kit {

/// Returns an address of this node.
std::string own_address(const verbatim::Context& context);

/// Returns two queue pairs of this process, connected by rdma_cm: the connecting and the accepting
/// one.
std::pair<verbatim::QueuePair, verbatim::QueuePair> connect_both(
    const verbatim::ProtectionDomain& domain, const verbatim::ConnectOptions& asker = {},
    const verbatim::ConnectOptions& peer = {});

/// A device, two connected queue pairs, and a buffer for each.
struct Pair {
  explicit Pair(const verbatim::ConnectOptions& asker_options = {},
                const verbatim::ConnectOptions& peer_options = {})
      : ends(connect_both(domain, asker_options, peer_options)) {}

  static constexpr std::size_t kBytes = 1 << 16;
  verbatim::Context context = verbatim::Context::open().value();
  verbatim::ProtectionDomain domain = context.allocate_domain().value();
  verbatim::Buffer here = domain.allocate(kBytes).value();
  verbatim::Buffer there = domain.allocate(kBytes).value();
  std::pair<verbatim::QueuePair, verbatim::QueuePair> ends;
  verbatim::QueuePair& asker = ends.first;
  verbatim::QueuePair& peer = ends.second;
};

inline void put(const verbatim::Buffer& buffer, std::string_view text, std::size_t offset = 0) {
  std::memcpy(buffer.bytes().data() + offset, text.data(), text.size());
}
inline std::string_view text(const verbatim::Buffer& buffer, std::size_t size,
                             std::size_t offset = 0) {
  return {reinterpret_cast<const char*>(buffer.bytes().data()) + offset, size};
}

}  // namespace kit

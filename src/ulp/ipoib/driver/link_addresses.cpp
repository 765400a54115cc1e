// Where an IP address leads: what programs of the host ask by rdma_cm.
#include <cerrno>

#include <fmt/format.h>

#include "base/log.h"
#include "ulp/ipoib/driver/link.h"

namespace verbatim::ulp::ipoib {

void Link::answer_programs() {
  auto answers = AddressAnswers::create(loop_, driver_->device().guid(), interface_.name(),
                                        [this](const auto& question) { return find(question); });
  if (answers) {
    address_answers_ = std::move(*answers);
  } else if (answers.error().code != ENOENT) {
    log(LogLevel::warn, "rdma_cm finds no addresses of {}: {}", interface_.name(),
        answers.error().text);
  }
}

AddressAnswers::Answer Link::own_answer(const SocketAddress& source) const {
  if (!sender_->neighbours().is_own(source)) {
    return refuse(EADDRNOTAVAIL,
                  fmt::format("{} is no address of this host's interfaces", source.ip_text()));
  }
  return fabric::protocol::AddressAnswer{
      .source = source, .own = own_.gid, .port = options_.port, .pkey = options_.pkey};
}

std::optional<AddressAnswers::Answer> Link::find(const AddressAnswers::Question& question) {
  const auto& [source, destination] = question;
  if (!sender_ || !has_carrier_)
    return refuse(ENETDOWN, fmt::format("{} has no carrier", interface_.name()));
  if (!source.empty()) {
    const auto own = own_answer(source);
    if (!own || destination.empty()) return own;
  }
  if (sender_->neighbours().is_own(destination)) {
    auto itself = own_answer(source.empty() ? destination : source);
    if (itself) itself->peer = own_.gid;
    return itself;
  }
  // What is not bound leaves by the interface that the routes name; fe80:: is behind each.
  const bool is_by_routes = source.empty() && !destination.is_link_local();
  const NextHop next =
      is_by_routes ? kernel_.next_hop_by_route(destination) : kernel_.next_hop(destination);
  if (next.kind != NextHop::Kind::neighbour) {
    return refuse(EHOSTUNREACH,
                  fmt::format("{} has no route to {}", interface_.name(), destination.ip_text()));
  }
  const auto peer = sender_->find(next, loop_.now(), out_);
  carry_out();
  if (!peer) return std::nullopt;
  auto found = own_answer(source.empty() ? next.source : source);
  if (found) found->peer = peer->gid;
  return found;
}

}  // namespace verbatim::ulp::ipoib

#include "verbatim/datagram.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "api/connecting/modify.h"
#include "api/connection.h"
#include "api/posting.h"

namespace verbatim::inline v1 {

namespace detail {

struct AddressHandle {
  explicit AddressHandle(ProtectionDomain of) : domain(std::move(of)) {}
  ~AddressHandle() {
    if (handle != nullptr) ibv_destroy_ah(handle);
  }
  ProtectionDomain domain;
  ibv_ah* handle = nullptr;
};

struct DatagramState {
  DatagramState(const ProtectionDomain& domain, const QueuePairOptions& options)
      : party(domain, options) {}
  ~DatagramState() {
    if (party.queue_pair == nullptr) return;
    ibv_qp_attr error{.qp_state = IBV_QPS_ERR};
    ibv_modify_qp(party.queue_pair, &error, IBV_QP_STATE);
    party.settle();
    ibv_destroy_qp(party.queue_pair);
    party.abandon();
  }
  std::uint32_t key = 0;
  Party party;
};

}  // namespace detail

DatagramQueuePair::DatagramQueuePair(std::unique_ptr<detail::DatagramState> state)
    : state_(std::move(state)) {}
DatagramQueuePair::DatagramQueuePair(DatagramQueuePair&&) noexcept = default;
DatagramQueuePair& DatagramQueuePair::operator=(DatagramQueuePair&&) noexcept = default;
DatagramQueuePair::~DatagramQueuePair() = default;

Result<DatagramQueuePair> DatagramQueuePair::make(const ProtectionDomain& domain,
                                                  const QueuePairOptions& options,
                                                  std::uint32_t key) {
  auto state = std::make_unique<detail::DatagramState>(domain, options);
  detail::Party& party = state->party;
  state->key = key;
  party.header_bytes = kHeaderBytes;
  if (auto made = party.make_queues(options); !made) return made.error();
  ibv_qp_init_attr wanted = party.attributes(options, IBV_QPT_UD);
  ibv_qp* const queue_pair = ibv_create_qp(domain.native(), &wanted);
  if (queue_pair == nullptr) {
    return detail::refused(Call::make_queue_pair, errno,
                           domain.context().device().is_iwarp
                               ? "iWARP has no datagram queue pairs"
                               : "larger than the device allows (ibv_devinfo -v)");
  }
  if (auto adopted = party.adopt(queue_pair, wanted.cap); !adopted) {
    ibv_destroy_qp(queue_pair);
    return adopted.error();
  }
  if (auto done = detail::to_send_datagrams(queue_pair, domain.context(), key); !done)
    return done.error();
  return DatagramQueuePair(std::move(state));
}

DatagramAddress DatagramQueuePair::address() const noexcept {
  const Context& context = state_->party.domain.context();
  return {
      .gid = context.gid(), .lid = context.port().lid, .queue_pair = number(), .key = state_->key};
}

std::uint32_t DatagramQueuePair::max_message() const noexcept {
  return state_->party.domain.context().port().mtu_bytes;
}

Result<Destination> DatagramQueuePair::resolve(const DatagramAddress& address) {
  const ProtectionDomain& domain = state_->party.domain;
  ibv_ah_attr wanted = detail::address_of(domain.context(), domain.context().port().is_ethernet,
                                          address.gid, address.lid);
  auto handle = std::make_shared<detail::AddressHandle>(domain);
  handle->handle = ibv_create_ah(domain.native(), &wanted);
  if (handle->handle == nullptr)
    return detail::refused(Call::make_address, errno, "the address cannot be reached");
  Destination destination;
  destination.handle_ = std::move(handle);
  destination.address_ = address;
  return destination;
}

RequestToken DatagramQueuePair::post(Slice from, const Destination& to, Operation operation,
                                     Immediate immediate, Flags flags) {
  const detail::Order order{.operation = operation,
                            .flags = flags,
                            .immediate = immediate.value,
                            .address = to.handle_ ? to.handle_->handle : nullptr,
                            .remote_queue_pair = to.address_.queue_pair,
                            .remote_key = to.address_.key};
  if (order.address != nullptr) return state_->party.post(order, from);
  RequestToken token;  // It is refused, and says why.
  state_->party.post(&token, nullptr, order, {&from, 1});
  return token;
}

RequestToken DatagramQueuePair::send(Slice from, const Destination& to, Flags flags) {
  return post(from, to, Operation::send, {}, flags);
}

RequestToken DatagramQueuePair::send(Slice from, const Destination& to, Immediate immediate,
                                     Flags flags) {
  return post(from, to, Operation::send_with_immediate, immediate, flags);
}

RequestToken DatagramQueuePair::receive(Slice into) {
  RequestToken token;
  state_->party.post_receive(token, {&into, 1});
  return token;
}

CompletionQueue DatagramQueuePair::completions() const {
  return ConnectionMaker::queue(state_->party.queue);
}
std::uint32_t DatagramQueuePair::number() const noexcept { return native()->qp_num; }
ibv_qp* DatagramQueuePair::native() const noexcept { return state_->party.queue_pair; }

}  // namespace verbatim::inline v1

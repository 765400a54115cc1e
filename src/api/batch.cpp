#include <vector>

#include "api/connection.h"
#include "verbatim/queue_pair.h"

namespace verbatim::inline v1 {

using detail::BatchedRequest;

struct Batch::State {
  explicit State(detail::Party& of) : party(of) {}
  detail::Party& party;
  std::vector<BatchedRequest> requests;
  std::size_t taken = 0;
};

Batch::Batch(detail::Connection& connection) : state_(std::make_unique<State>(connection.party)) {}
Batch::Batch(Batch&&) noexcept = default;
Batch& Batch::operator=(Batch&&) noexcept = default;
Batch::~Batch() = default;

Batch QueuePair::batch() { return Batch(*connection_); }

std::size_t Batch::size() const noexcept { return state_->requests.size(); }
std::size_t Batch::taken() const noexcept { return state_->taken; }

Batch& Batch::send(Slice from, Flags flags) {
  state_->requests.push_back({{.operation = Operation::send, .flags = flags}, from});
  return *this;
}

Batch& Batch::write(Slice from, RemoteSlice to, Flags flags) {
  state_->requests.push_back({{.operation = Operation::write, .remote = to, .flags = flags}, from});
  return *this;
}

Batch& Batch::write(Slice from, RemoteSlice to, Immediate immediate, Flags flags) {
  state_->requests.push_back({{.operation = Operation::write_with_immediate,
                               .remote = to,
                               .flags = flags,
                               .immediate = immediate.value},
                              from});
  return *this;
}

Batch& Batch::read(Slice into, RemoteSlice from, Flags flags) {
  state_->requests.push_back(
      {{.operation = Operation::read, .remote = from, .flags = flags}, into});
  return *this;
}

RequestToken Batch::post() {
  RequestToken token;
  state_->taken = state_->party.post_batch(token, state_->requests);
  state_->requests.clear();
  return token;
}

}  // namespace verbatim::inline v1

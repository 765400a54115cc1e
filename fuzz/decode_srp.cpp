// Any bytes from an SRP initiator: logins and messages are decoded within their bounds and encode
// to what they were, and a target takes no harm. The first byte says how the target is used.
#include <deque>
#include <vector>

#include "base/assert.h"
#include "input.h"
#include "ulp/srp/service.h"

namespace {

using namespace verbatim;
using namespace verbatim::ulp;

void check_codecs(ByteSpan bytes) {
  for (const auto form : {srp::LoginForm::rdma_cm, srp::LoginForm::infiniband_cm}) {
    if (const auto login = srp::decode_login(bytes, form))
      VERBATIM_ASSERT(srp::decode_login(srp::encode(*login, form), form) == *login);
  }
  if (const auto one = srp::decode_login_response(bytes))
    VERBATIM_ASSERT(srp::decode_login_response(srp::encode(*one)) == *one);
  if (const auto one = srp::decode_login_reject(bytes))
    VERBATIM_ASSERT(srp::decode_login_reject(srp::encode(*one)) == *one);
  if (const auto one = srp::decode_management(bytes))
    VERBATIM_ASSERT(srp::decode_management(srp::encode(*one)) == *one);
  if (const auto one = srp::decode_response(bytes); one && one->sense.size() <= 28)
    VERBATIM_ASSERT(srp::encode(*one).size() <= srp::ResponseBytes::kBytesMax);
  srp::BufferFault fault;
  if (const auto command = srp::decode_command(bytes, 68, fault)) {
    for (const srp::Buffer* const buffer : {&command->out, &command->in})
      VERBATIM_ASSERT(fault.what != nullptr || buffer->needs_table() ||
                      buffer->format == srp::Format::immediate ||
                      buffer->described_bytes() >= buffer->bytes);
  }
}

/// READs succeed with whatever the memory has, in their turn; the store fails.
class Target {
 public:
  explicit Target(storage::Session& session) : session_(session) {}
  void feed(ByteSpan bytes) {
    auto& kept = messages_.emplace_back(bytes.begin(), bytes.end());
    const Slice memory{kept.data(), static_cast<std::uint32_t>(kept.size()), {}};
    session_.on_message({.memory = memory}, 0, out_);
    drain();
  }
  void end() {
    session_.on_end(0, out_);
    drain();
    VERBATIM_ASSERT(session_.is_idle());
  }

 private:
  void drain() {
    for (int i = 0; i < 10'000; ++i) {
      for (const auto& request : out_.store) {
        if (std::holds_alternative<storage::GiveBack>(request)) continue;
        const bool borrows = std::holds_alternative<storage::Borrow>(request);
        (borrows ? borrows_ : stores_)
            .push_back(std::visit([](const auto& one) { return one.tag; }, request));
      }
      for (const Work& work : out_.work) {
        const auto* const read = std::get_if<Read>(&work);
        const auto* const send = std::get_if<Send>(&work);
        const Tag tag = read != nullptr ? read->done : send != nullptr ? send->done : kNoTag;
        if (tag != kNoTag) done_.push_back(tag);
      }
      const bool more = out_.more;
      out_.clear();
      if (more) {
        session_.resume(0, out_);
      } else if (!borrows_.empty()) {
        const Tag tag = borrows_.front();
        borrows_.pop_front();
        session_.on_pages(tag, storage::StoreStatus::medium_error, {}, 0, out_);
      } else if (!stores_.empty()) {
        const Tag tag = stores_.front();
        stores_.pop_front();
        session_.on_stored(tag, storage::StoreStatus::medium_error, 0, out_);
      } else if (!done_.empty()) {
        const Tag tag = done_.front();
        done_.pop_front();
        session_.on_done(tag, CompletionStatus::success, 0, out_);
      } else {
        return;
      }
    }
    VERBATIM_ASSERT(false);
  }

  storage::Session& session_;
  storage::Output out_;
  std::deque<std::vector<std::byte>> messages_;
  std::deque<Tag> borrows_, stores_, done_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  check_codecs(std::as_bytes(std::span(data, size)));
  Input input(data, size);
  std::vector<std::byte> memory(2 * scsi::LogicalUnit::kMemoryBytes);
  const Slice pieces[] = {
      {memory.data(), scsi::LogicalUnit::kMemoryBytes, {}},
      {&memory[scsi::LogicalUnit::kMemoryBytes], scsi::LogicalUnit::kMemoryBytes, {}}};
  scsi::LogicalUnit unit(storage::UnitId{1}, {}, {.blocks = 1000, .ports = {1}});
  srp::Ports ports({.channels = 1, .requests = 8}, pieces);
  srp::Service service(ports);
  srp::Port port(srp::PortId{}, "port");
  static_cast<void>(port.add(0, unit));
  port.admit_any();
  static_cast<void>(ports.add(std::move(port)));
  const srp::LoginRequest login{
      .request_bytes = 8260,
      .flags = (input.byte() & 1) != 0 ? srp::kImmediateData : std::uint8_t{0},
      .immediate_offset = 68};
  Meeting meeting{.reads = {.initiator = 1, .responder = 1}};
  meeting.private_data = to_private_data(encode(login, srp::LoginForm::infiniband_cm));
  auto verdict = service.on_meeting(meeting, 0);
  auto session = std::move(std::get<storage::Accept>(verdict).session);
  auto target = std::make_unique<Target>(*session);
  while (!input.empty()) {
    std::vector<std::byte> message(1 + input.byte());
    for (std::byte& byte : message) byte = static_cast<std::byte>(input.byte());
    target->feed(message);
  }
  target->end();
  return 0;
}

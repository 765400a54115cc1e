#include "ulp/lnet/self_test_client.h"

#include <cstring>
#include <utility>

#include <fmt/format.h>

namespace verbatim::ulp::lnet {

SelfTestClient::SelfTestClient(Node& node)
    : node_(node), next_bits_(node.settings().stamp << 24 & ~std::uint64_t{1}) {}

bool SelfTestClient::begin(const TestPlan& plan, TimeNs now) {
  if (is_running()) return false;
  plan_ = plan;
  result_ = {};
  asked_ = 0;
  session_ = {node_.settings().own.front().value, next_bits_};
  state_ = State::making;
  ask_framework(TestKind::make_session, TestService::make_session, now);
  return true;
}

void SelfTestClient::ask_framework(TestKind kind, TestService service, TimeNs now) {
  TestMessage message(kind);
  framework_bits_ = next_bits_ += 2;
  message.set_answer_bits(framework_bits_);
  message.set_session(session_);
  if (kind == TestKind::test) message.set_service(plan_.service, plan_.concurrency);
  gives_up_ = now + kPatience;
  if (!node_.put(plan_.server, kFrameworkPortal, static_cast<std::uint8_t>(service),
                 message.bytes(), now))
    end(fmt::format("no way leads to {}", text_of(plan_.server)), now);
}

void SelfTestClient::on_put(const LnetHeader& header, ByteSpan payload, TimeNs now) {
  if (header.source != plan_.server || !is_running()) return;
  if (const auto bulk = requests_.find(header.match_bits - 1); bulk != requests_.end()) {
    bulk->second.has_bulk = true;
    if (payload.size() != plan_.bytes || !is_bulk_right(plan_.check, payload))
      bulk->second.is_right = false;
    return finish_request(bulk->first, now);
  }
  const auto answer = TestMessage::decode(payload);
  if (!answer || !answer->is_answer()) return;
  if (header.match_bits == framework_bits_) return on_framework(*answer, now);
  on_answer(header.match_bits, *answer, now);
}

void SelfTestClient::on_framework(const TestMessage& answer, TimeNs now) {
  framework_bits_ = 0;
  if (state_ != State::ending && answer.status() != 0)
    return end(
        fmt::format("the server refuses: {}", std::strerror(static_cast<int>(answer.status()))),
        now);
  if (state_ == State::making) {
    state_ = State::announcing;
    return ask_framework(TestKind::test, TestService::test, now);
  }
  if (state_ == State::ending) return end(std::move(result_.words), now);
  state_ = State::running;
  result_.began = now;
  ask(now);
}

void SelfTestClient::ask(TimeNs now) {
  while (asked_ < plan_.requests && requests_.size() < plan_.concurrency) {
    if (!ask_one(now)) return;
  }
}

bool SelfTestClient::ask_one(TimeNs now) {
  Request request{.has_bulk = !is_bulk() || plan_.kind == BulkKind::write};
  const std::uint64_t bits = next_bits_ += 2;
  TestMessage message(is_bulk() ? TestKind::bulk : TestKind::ping);
  if (is_bulk()) {
    if (plan_.kind == BulkKind::write) {
      request.buffer = node_.buffers().take();
      if (!request.buffer) return false;  // Asked again when an answer has come.
      fill_bulk(plan_.check, {request.buffer->memory.data, plan_.bytes});
    }
    message.set_bulk({bits, bits + 1, plan_.kind, plan_.bytes, plan_.check});
  } else {
    message.set_answer_bits(bits);
    message.set_ping(asked_);
  }
  ++asked_;
  gives_up_ = now + kPatience;
  requests_[bits] = request;
  if (!node_.put(plan_.server, kTestPortal, static_cast<std::uint8_t>(plan_.service),
                 message.bytes(), now)) {
    end("too much waits to be sent", now);
    return false;
  }
  return true;
}

void SelfTestClient::on_answer(std::uint64_t bits, const TestMessage& answer, TimeNs now) {
  const auto found = requests_.find(bits);
  if (found == requests_.end()) return;
  found->second.has_answer = true;
  if (answer.status() != 0) {
    found->second.is_right = false;
    found->second.has_bulk = true;
  }
  finish_request(bits, now);
}

void SelfTestClient::finish_request(std::uint64_t bits, TimeNs now) {
  const auto found = requests_.find(bits);
  if (!found->second.has_answer || !found->second.has_bulk) return;
  ++(found->second.is_right ? result_.done : result_.errors);
  release(found->second);
  requests_.erase(found);
  if (state_ != State::running) return;
  ask(now);
  if (requests_.empty() && asked_ >= plan_.requests) {
    result_.ended = now;
    state_ = State::ending;
    ask_framework(TestKind::end_session, TestService::end_session, now);
  }
}

bool SelfTestClient::wants(const LnetHeader& put) const {
  return put.portal == kAnswerPortal && requests_.contains(put.match_bits - 1);
}

std::optional<Buffer> SelfTestClient::find(const LnetHeader& get) {
  const auto found = requests_.find(get.match_bits - 1);
  if (get.portal != kAnswerPortal || found == requests_.end()) return std::nullopt;
  std::optional<Buffer> buffer = found->second.buffer;
  if (!buffer) return std::nullopt;
  ++found->second.loans;
  buffer->memory.bytes = plan_.bytes;
  return buffer;
}

void SelfTestClient::on_given(const LnetHeader& get, const Buffer& buffer) {
  if (const auto found = requests_.find(get.match_bits - 1); found != requests_.end()) {
    --found->second.loans;
  } else if (const auto lent = lent_.find(buffer.memory.data);
             lent != lent_.end() && --lent->second == 0) {
    lent_.erase(lent);
    node_.buffers().give_back(buffer);
  }
}

/// The request is over. Its buffer is free when no transfer reads it any more.
void SelfTestClient::release(const Request& request) {
  if (!request.buffer) return;
  if (request.loans > 0) {
    lent_[request.buffer->memory.data] = request.loans;
  } else {
    node_.buffers().give_back(*request.buffer);
  }
}

void SelfTestClient::on_time(TimeNs now) {
  if (is_running() && now >= gives_up_) end("the server has not answered for 60 s", now);
}

void SelfTestClient::end(std::string words, TimeNs now) {
  if (result_.ended == 0) result_.ended = now;
  result_.words = std::move(words);
  result_.is_over = true;
  state_ = State::idle;
  for (const auto& [bits, request] : requests_) release(request);
  requests_.clear();
}

}  // namespace verbatim::ulp::lnet

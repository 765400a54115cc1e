#include "agent/client/port_bindings.h"

#include <array>
#include <chrono>

#include <sys/socket.h>

#include "agent/client/agent_request.h"
#include "agent/protocol/protocol.h"
#include "base/log.h"

namespace verbatim::agent {
namespace {

BindingRequest request_for(BindingOperation operation, const PortBinding& binding) {
  BindingRequest request;
  request.operation = operation;
  request.port_space = binding.port_space;
  request.handle = binding.handle;
  request.services = binding.services;
  request.address = to_record(binding.address);
  request.reuses_address = binding.reuses_address;
  request.own_family_only = binding.own_family_only;
  request.listens = binding.listens;
  return request;
}

Result<std::uint16_t> ask_for(int channel, BindingOperation operation, const PortBinding& binding) {
  auto answered = ask<BindingAnswer>(channel, request_for(operation, binding));
  if (!answered) return std::unexpected(answered.error());
  return answered->message.port;
}

}  // namespace

/// Sends the agent one end of a new socket pair.
Result<void> PortBindings::open() {
  std::array<int, 2> ends{};
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0) {
    return refuse_errno("no socket to the agent");
  }
  UniqueFd own(ends[0]);
  const UniqueFd theirs(ends[1]);
  const timeval timeout{.tv_sec = timeout_.count() / 1000,
                        .tv_usec = timeout_.count() % 1000 * 1000};
  setsockopt(own.get(), SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout);
  if (auto sent = send(connection_, OpenBindings{}, std::span(&ends[1], 1)); !sent) {
    return refuse(kClosed, sent.error().text);
  }
  for (const std::uint64_t handle : given_up_) {
    const auto released = ask_for(own.get(), BindingOperation::release, {.handle = handle});
    if (!released) return std::unexpected(released.error());
  }
  given_up_.clear();
  for (const auto& [handle, binding] : granted_) {
    const auto restored = ask_for(own.get(), BindingOperation::restore, binding);
    if (!restored) return std::unexpected(restored.error());
  }
  channel_ = std::move(own);
  return {};
}

/// Calls `exchange(channel)` under the lock; repeats it with the next agent if one exits during it.
template <typename Exchange>
auto PortBindings::with_channel(Exchange exchange) -> decltype(exchange(0)) {
  const auto end = std::chrono::steady_clock::now() + timeout_;
  std::unique_lock guard(lock_);
  for (;;) {
    if (!attached_.wait_until(guard, end, [this] { return connection_ >= 0; })) {
      return refuse(ETIMEDOUT, "the node has no agent at the moment");
    }
    Result<void> opened;
    if (!channel_) opened = open();
    auto result =
        opened ? exchange(channel_.get()) : decltype(exchange(0))(std::unexpected(opened.error()));
    if (result) return result;
    const int error = result.error().code;
    // A late answer must not be taken for the next request's.
    if (error == kClosed || error == ETIMEDOUT) channel_.reset();
    if (error != kClosed) return result;
    connection_ = -1;  // `attach` follows when the background thread has also noticed.
  }
}

Result<std::uint16_t> PortBindings::bind(const PortBinding& binding) {
  return with_channel([&](int channel) -> Result<std::uint16_t> {
    const auto port = ask_for(channel, BindingOperation::bind, binding);
    if (!port) {
      if (port.error().code == ETIMEDOUT) given_up_.push_back(binding.handle);
      return port;
    }
    PortBinding granted = binding;
    granted.address = binding.address.with_port(*port);
    granted_.insert_or_assign(binding.handle, granted);
    return port;
  });
}

Result<void> PortBindings::listen(std::uint64_t handle) {
  return with_channel([&](int channel) -> Result<void> {
    const auto granted = granted_.find(handle);
    if (granted == granted_.end()) return refuse(EINVAL, "not bound");
    const auto port = ask_for(channel, BindingOperation::listen, granted->second);
    if (!port) return std::unexpected(port.error());
    granted->second.listens = true;
    return {};
  });
}

void PortBindings::release(std::uint64_t handle) {
  const std::lock_guard guard(lock_);
  if (granted_.erase(handle) == 0) return;
  const auto released = channel_
                            ? ask_for(channel_.get(), BindingOperation::release, {.handle = handle})
                            : refuse(ETIMEDOUT, "the agent has not answered before");
  if (released) return;
  given_up_.push_back(handle);
  channel_.reset();
}

void PortBindings::attach(int connection) {
  const std::lock_guard guard(lock_);
  connection_ = connection;
  channel_.reset();
  given_up_.clear();  // Another agent does not hold them.
  if (!granted_.empty()) {
    if (auto opened = open(); !opened) {
      log(LogLevel::warn, "the agent does not take over ports: {}", opened.error().text);
    }
  }
  attached_.notify_all();
}

void PortBindings::detach() {
  const std::lock_guard guard(lock_);
  connection_ = -1;
  channel_.reset();
}

void PortBindings::close_in_child() {
  // Another thread of the parent may have held the lock; this child has only one thread.
  std::construct_at(&lock_);
  std::construct_at(&attached_);
  connection_ = -1;
  channel_.reset();
  granted_.clear();
  given_up_.clear();
}

}  // namespace verbatim::agent

#pragma once

#include <cstdint>
#include <expected>
#include <memory>
#include <optional>
#include <string>

#include "ulp/iscsi/chap.h"
#include "ulp/iscsi/negotiation.h"
#include "ulp/iscsi/target.h"
#include "ulp/iscsi/wire/pdu.h"

namespace verbatim::ulp::iscsi {

/// Finds targets by name, and draws challenges.
class TargetList {
 public:
  /// `own`: the address that the initiator has used. Shared: an administrator may remove a target
  /// while an initiator logs in.
  virtual std::shared_ptr<Target> find(std::string_view name, const SocketAddress& own) = 0;
  virtual const Authentication& discovery_authentication() const = 0;
  virtual const Random& random() const = 0;

 protected:
  ~TargetList() = default;
};

/// The target's side of one login (RFC 7143, section 6.3), from its first request to the one that
/// asks for the full feature phase:
///
///     stage 0  security      who it is; CHAP
///     stage 1  operational   a table of keys (negotiation.h)
///     stage 3  full feature
class Login {
 public:
  struct Answer {
    ResponseHeader header;
    std::string text;
    LoginStatus status = LoginStatus::success;
    std::string words;         // Why it has failed.
    bool is_complete = false;  // The full feature phase has been asked for.
  };

  Login(TargetList& targets, const Parameters& ours, bool is_iser, const SocketAddress& own = {})
      : targets_(targets), parameters_(ours), is_iser_(is_iser), own_(own) {}

  Answer on_request(const RequestHeader& request, ByteSpan data);

  const std::string& initiator() const { return initiator_; }
  const std::string& alias() const { return alias_; }
  const std::shared_ptr<Target>& target() const { return target_; }  // Null: a discovery session.
  /// An administrator may have changed that since it was asked.
  bool is_still_admitted() const {
    return target_ == nullptr || (target_->is_enabled() && target_->admits(initiator_));
  }
  const Parameters& parameters() const { return parameters_; }
  std::uint64_t isid() const { return isid_; }
  std::uint16_t connection_id() const { return connection_id_; }

 private:
  enum class Stage : std::uint8_t { security = 0, operational = 1, full_feature = 3 };
  struct Failure {
    LoginStatus status{};
    std::string words;
  };
  using Checked = std::expected<void, Failure>;
  static std::unexpected<Failure> fail(LoginStatus status, std::string words) {
    return std::unexpected(Failure{status, std::move(words)});
  }

  Checked on_text(const RequestHeader& request, ByteSpan data, Answer& answer);
  Checked check_header(const RequestHeader& request);
  Checked identify(std::span<const Key> keys);
  Checked find_target(std::string_view name);
  Checked on_security(std::span<const Key> keys, std::string& text);
  Checked on_operational(std::span<const Key> keys, std::string& text);
  Checked transit(const RequestHeader& request, Answer& answer);
  bool must_authenticate() const {
    return authentication().is_required() && (!chap_ || !chap_->is_done());
  }
  const Authentication& authentication() const;

  TargetList& targets_;
  Parameters parameters_;
  const bool is_iser_;
  const SocketAddress own_;
  std::optional<Stage> stage_;  // None: nothing has come.
  std::string text_;            // Of requests with the C bit.
  std::string initiator_, alias_;
  std::shared_ptr<Target> target_;
  std::uint64_t isid_ = 0;
  std::uint16_t connection_id_ = 0;
  std::optional<Chap> chap_;
  bool has_said_method_ = false;
  bool has_said_sizes_ = false;
};

}  // namespace verbatim::ulp::iscsi

#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ulp/iscsi/chap.h"
#include "ulp/iscsi/negotiation.h"
#include "ulp/iscsi/wire/pdu.h"
#include "ulp/storage/initiator.h"

namespace verbatim::ulp::iser {

/// Who logs in, and where.
struct LoginSettings {
  std::string initiator, target;
  /// CHAP: what we prove. Empty: no authentication is offered.
  iscsi::Credentials credentials{};
  /// Mutual CHAP: what the target must prove. Requires `credentials` and `random`.
  iscsi::Credentials target_proves{};
  iscsi::Random random{};
  /// 48 bits. The same in each session of a disk: its login ends the session before, with all that
  /// was under way (RFC 7143, 6.3.5).
  std::uint64_t isid = 0;
};

/// The initiator's side of a login. One round without CHAP, as Linux's; otherwise
///
///     AuthMethod=CHAP,None | CHAP_A=5 | CHAP_N, CHAP_R[, CHAP_I, CHAP_C] | keys
class InitiatorLogin {
 public:
  struct Request {
    iscsi::RequestHeader header;
    std::string text;
  };
  explicit InitiatorLogin(LoginSettings settings);

  Request first();
  /// The next request; none: it is complete, or it has failed.
  std::optional<Request> on_response(const iscsi::ResponseHeader& response, ByteSpan data);

  bool is_complete() const { return is_complete_; }
  const storage::Failure* failure() const { return failure_ ? &*failure_ : nullptr; }
  const iscsi::Parameters& parameters() const { return parameters_; }

 private:
  enum class Stage : std::uint8_t { security = 0, operational = 1, full_feature = 3 };
  using Keys = std::span<const iscsi::Key>;
  static constexpr int kRounds = 16;

  std::optional<Request> on_keys(const iscsi::ResponseHeader& response, Keys keys);
  std::optional<Request> on_security(Keys keys);
  std::optional<Request> prove(Keys keys);
  /// Mutual CHAP: whether the target has proved who it is, or need not. If not, the login fails.
  bool is_trusted(Keys keys);
  std::optional<Request> on_transit(const iscsi::ResponseHeader& response);
  bool take_parameters(Keys keys);
  Request request(bool wants_next, std::string text) const;
  Request operational(std::string text) const;
  std::string names() const;
  std::nullopt_t fail(std::string words, bool is_final = true);

  const LoginSettings settings_;
  std::byte identifier_{};
  std::vector<std::byte> challenge_;  // Sent to the target; empty: not yet.
  iscsi::Parameters parameters_;
  Stage stage_ = Stage::operational;
  std::string text_;  // Of responses with the C bit.
  int rounds_ = 0;
  bool is_complete_ = false;
  std::optional<storage::Failure> failure_;
};

}  // namespace verbatim::ulp::iser

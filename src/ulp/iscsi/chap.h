#pragma once

#include <expected>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "ulp/iscsi/md5.h"
#include "ulp/iscsi/wire/text.h"

namespace verbatim::ulp::iscsi {

struct Credentials {
  std::string user;
  std::string secret;
  bool empty() const { return user.empty() && secret.empty(); }
};
/// `initiator`: what it must know. `target`: what we prove if it asks (mutual CHAP).
struct Authentication {
  Credentials initiator, target;
  bool is_demanded = false;  // Also as long as no credentials are set: then nobody knows them.
  bool is_required() const { return is_demanded || !initiator.empty(); }
};

/// Fills the span with random bytes; a test's are known.
using Random = std::function<void(MutableByteSpan)>;

/// MD5 of identifier, secret and challenge (RFC 1994, section 4.1).
Md5 chap_response(std::byte identifier, std::string_view secret, ByteSpan challenge);

/// The target's side of CHAP in a login (RFC 7143, section 12.1.3):
///
///     AuthMethod=CHAP,None                   AuthMethod=CHAP
///     CHAP_A=5                               CHAP_A=5, CHAP_I, CHAP_C
///     CHAP_N, CHAP_R[, CHAP_I, CHAP_C]       [CHAP_N, CHAP_R]
class Chap {
 public:
  Chap(const Authentication& wanted, const Random& random) : wanted_(wanted), random_(random) {}
  /// The keys of one request; adds our answer's. The error says why authentication has failed.
  std::expected<void, std::string> on_keys(std::span<const Key> keys, std::string& answer);
  bool is_done() const { return step_ == Step::done; }

 private:
  enum class Step : std::uint8_t { algorithm, response, done };
  std::expected<void, std::string> challenge(std::span<const Key> keys, std::string& answer);
  std::expected<void, std::string> check(std::span<const Key> keys, std::string& answer);

  const Authentication wanted_;
  const Random& random_;
  Step step_ = Step::algorithm;
  std::byte identifier_{};
  std::vector<std::byte> challenge_;
};

}  // namespace verbatim::ulp::iscsi

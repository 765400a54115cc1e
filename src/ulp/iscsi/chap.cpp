#include "ulp/iscsi/chap.h"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

namespace verbatim::ulp::iscsi {
namespace {

constexpr std::size_t kChallengeBytes = 16;

std::string_view value_of(std::span<const Key> keys, std::string_view name) {
  const auto key = std::ranges::find(keys, name, &Key::name);
  return key == keys.end() ? std::string_view{} : key->value;
}

/// In a time that does not depend on where they differ.
bool are_equal(ByteSpan a, ByteSpan b) {
  if (a.size() != b.size()) return false;
  std::byte difference{};
  for (std::size_t i = 0; i < a.size(); ++i) difference |= a[i] ^ b[i];
  return difference == std::byte{};
}

}  // namespace

Md5 chap_response(std::byte identifier, std::string_view secret, ByteSpan challenge) {
  std::vector<std::byte> message = {identifier};
  const auto bytes = std::as_bytes(std::span(secret));
  message.insert(message.end(), bytes.begin(), bytes.end());
  message.insert(message.end(), challenge.begin(), challenge.end());
  return md5(message);
}

std::expected<void, std::string> Chap::on_keys(std::span<const Key> keys, std::string& answer) {
  switch (step_) {
    case Step::algorithm:
      return challenge(keys, answer);
    case Step::response:
      return check(keys, answer);
    case Step::done:
      break;
  }
  return {};
}

std::expected<void, std::string> Chap::challenge(std::span<const Key> keys, std::string& answer) {
  const std::string_view algorithms = value_of(keys, "CHAP_A");
  const auto is_md5 = [](std::string_view one) { return one == "5"; };
  if (!any_of_list(algorithms, is_md5))
    return std::unexpected(fmt::format("CHAP_A={}: we have 5 (MD5)", algorithms));
  challenge_.resize(kChallengeBytes);
  random_(challenge_);
  random_({&identifier_, 1});
  add_key(answer, "CHAP_A", "5");
  add_key(answer, "CHAP_I", fmt::to_string(std::to_integer<unsigned>(identifier_)));
  add_key(answer, "CHAP_C", hex_text(challenge_));
  step_ = Step::response;
  return {};
}

std::expected<void, std::string> Chap::check(std::span<const Key> keys, std::string& answer) {
  const std::string_view user = value_of(keys, "CHAP_N");
  const auto response = parse_binary(value_of(keys, "CHAP_R"));
  if (!response) return std::unexpected("no CHAP_R of 16 bytes");
  if (wanted_.initiator.empty())
    return std::unexpected("CHAP is demanded, but no user and secret are set");
  const Md5 expected = chap_response(identifier_, wanted_.initiator.secret, challenge_);
  if (user != wanted_.initiator.user)
    return std::unexpected(
        fmt::format("CHAP_N={}: the user is '{}'", user, wanted_.initiator.user));
  if (!are_equal(*response, expected))
    return std::unexpected(fmt::format("CHAP_R of user '{}' is wrong: another secret", user));
  step_ = Step::done;

  const std::string_view number = value_of(keys, "CHAP_I");
  if (number.empty() && value_of(keys, "CHAP_C").empty()) return {};
  if (wanted_.target.empty())
    return std::unexpected("mutual CHAP is asked for, but no mutual user and secret are set");
  const auto identifier = parse_number(number);
  const auto challenge = parse_binary(value_of(keys, "CHAP_C"));
  if (!identifier || *identifier > 255 || !challenge)
    return std::unexpected("mutual CHAP without a good CHAP_I and CHAP_C");
  if (*challenge == challenge_)  // It would have us answer our own (RFC 7143, 9.2.1).
    return std::unexpected("CHAP_C is the target's own challenge");
  add_key(answer, "CHAP_N", wanted_.target.user);
  const auto id = static_cast<std::byte>(*identifier);
  add_key(answer, "CHAP_R", hex_text(chap_response(id, wanted_.target.secret, *challenge)));
  return {};
}

}  // namespace verbatim::ulp::iscsi

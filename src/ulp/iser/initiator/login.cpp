#include "ulp/iser/initiator/login.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace verbatim::ulp::iser {

using iscsi::add_key;
using iscsi::Key;
using iscsi::LoginStatus;
using iscsi::ResponseHeader;

namespace {

constexpr std::uint32_t kUnaskedBytes = 8192;

/// Why a login is refused (RFC 7143, 11.13.5).
struct StatusRow {
  LoginStatus status{};
  std::string_view words;
};
constexpr StatusRow kStatuses[] = {
    {LoginStatus{0x0101}, "the target has moved for now"},
    {LoginStatus{0x0102}, "the target has moved"},
    {LoginStatus::initiator_error, "the target finds our login wrong"},
    {LoginStatus::authentication_failure,
     "authentication has failed: the target wants another user or secret"},
    {LoginStatus::forbidden, "this initiator is not admitted: the target's ACL must name it"},
    {LoginStatus::not_found, "there is no such target"},
    {LoginStatus::unsupported_version, "the target has another version of iSCSI"},
    {LoginStatus::too_many_connections, "the target has too many connections"},
    {LoginStatus::missing_parameter, "the target misses a parameter"},
    {LoginStatus::session_type_not_supported, "the target has no such sessions"},
    {LoginStatus::target_error, "the target has failed"},
    {LoginStatus{0x0301}, "the target does not serve now"},
    {LoginStatus::out_of_resources, "the target has no resources left"},
};

std::string words_of(LoginStatus status) {
  const auto row = std::ranges::find(kStatuses, status, &StatusRow::status);
  return fmt::format("{} (login status {:#06x})",
                     row == std::end(kStatuses) ? "the target refuses" : row->words, raw(status));
}

std::string_view value_of(std::span<const Key> keys, std::string_view name) {
  const auto key = std::ranges::find(keys, name, &Key::name);
  return key == keys.end() ? std::string_view{} : key->value;
}

/// No answer to a key, which keeps its default.
bool is_no_value(std::string_view value) {
  return value == "NotUnderstood" || value == "Irrelevant" || value == "Reject";
}

}  // namespace

InitiatorLogin::InitiatorLogin(LoginSettings settings) : settings_(std::move(settings)) {
  parameters_.initial_r2t = 0;
  parameters_.first_burst = kUnaskedBytes;
  parameters_.rdma_extensions = 1;
  if (!settings_.credentials.empty()) stage_ = Stage::security;
}

std::nullopt_t InitiatorLogin::fail(std::string words, bool is_final) {
  failure_ = {std::move(words), is_final};
  return std::nullopt;
}

std::string InitiatorLogin::names() const {
  std::string text;
  add_key(text, "InitiatorName", settings_.initiator);
  add_key(text, "TargetName", settings_.target);
  add_key(text, "SessionType", "Normal");
  return text;
}

InitiatorLogin::Request InitiatorLogin::first() {
  if (stage_ == Stage::operational) return operational(names());
  std::string text = names();
  add_key(text, "AuthMethod", "CHAP,None");
  return request(true, std::move(text));
}

/// `wants_next`: the stage is over, as far as we are concerned.
InitiatorLogin::Request InitiatorLogin::request(bool wants_next, std::string text) const {
  const bool is_security = stage_ == Stage::security;
  std::uint8_t flags = is_security ? 0x00 : 0x04;
  if (wants_next) flags |= iscsi::kFinal | (is_security ? 0x01 : 0x03);
  return {.header = {.opcode = iscsi::Opcode::login,
                     .is_immediate = true,
                     .flags = flags,
                     .data_bytes = static_cast<std::uint32_t>(text.size()),
                     .lun = settings_.isid << 16},
          .text = std::move(text)};
}

InitiatorLogin::Request InitiatorLogin::operational(std::string text) const {
  add_key(text, "InitialR2T", "No");
  add_key(text, "ImmediateData", "Yes");
  add_key(text, "MaxBurstLength", fmt::to_string(parameters_.max_burst));
  add_key(text, "FirstBurstLength", fmt::to_string(parameters_.first_burst));
  add_key(text, "MaxOutstandingR2T", "1");
  add_key(text, "MaxConnections", "1");
  add_key(text, "DataPDUInOrder", "Yes");
  add_key(text, "DataSequenceInOrder", "Yes");
  add_key(text, "InitiatorRecvDataSegmentLength", fmt::to_string(parameters_.initiator_receives));
  add_key(text, "TargetRecvDataSegmentLength", fmt::to_string(parameters_.target_receives));
  add_key(text, "RDMAExtensions", "Yes");
  add_key(text, "DefaultTime2Wait", "2");
  add_key(text, "DefaultTime2Retain", "0");
  add_key(text, "ErrorRecoveryLevel", "0");
  return request(true, std::move(text));
}

std::optional<InitiatorLogin::Request> InitiatorLogin::on_response(const ResponseHeader& response,
                                                                   ByteSpan data) {
  const auto status = LoginStatus{static_cast<std::uint16_t>(response.data_sn >> 16)};
  constexpr std::uint16_t kInitiatorErrors = 0x0300;  // Below it; above are the target's own.
  if (status != LoginStatus::success) return fail(words_of(status), raw(status) < kInitiatorErrors);
  if (++rounds_ > kRounds) return fail("the login has no end");
  if (text_.size() + data.size() > iscsi::kTextBytesMax)
    return fail("the target's keys have more than 16384 bytes");
  text_.append(reinterpret_cast<const char*>(data.data()), data.size());
  if ((response.flags & iscsi::kContinue) != 0) return request(false, {});
  const std::string text = std::exchange(text_, {});
  const auto keys = iscsi::parse_keys(text);
  if (!keys) return fail(fmt::format("the target's keys: {}", keys.error()));
  return on_keys(response, *keys);
}

std::optional<InitiatorLogin::Request> InitiatorLogin::on_keys(const ResponseHeader& response,
                                                               Keys keys) {
  const auto stage = Stage{static_cast<std::uint8_t>(response.flags >> 2 & 3)};
  if (stage != stage_)
    return fail(
        fmt::format("the target answers in stage {}: we are in {}", raw(stage), raw(stage_)));
  if (stage == Stage::operational && !take_parameters(keys)) return std::nullopt;
  const bool is_over = (response.flags & iscsi::kFinal) != 0;
  if (stage == Stage::security && is_over && !is_trusted(keys)) return std::nullopt;
  if (is_over) return on_transit(response);
  if (stage == Stage::security) return on_security(keys);
  return request(true, {});
}

std::optional<InitiatorLogin::Request> InitiatorLogin::on_transit(const ResponseHeader& response) {
  const auto next = Stage{static_cast<std::uint8_t>(response.flags & 3)};
  if (next != Stage::full_feature && next != Stage::operational)
    return fail(fmt::format("the target goes on to stage {}", raw(next)));
  if (next == stage_) return fail("the target stays in its stage");
  stage_ = next;
  if (next == Stage::operational) return operational({});
  is_complete_ = true;
  return std::nullopt;
}

std::optional<InitiatorLogin::Request> InitiatorLogin::on_security(Keys keys) {
  if (!value_of(keys, "CHAP_C").empty()) return prove(keys);
  const std::string_view method = value_of(keys, "AuthMethod");
  if (method == "None" && is_trusted(keys)) return request(true, {});
  if (failure_) return std::nullopt;
  if (method != "CHAP")
    return fail(fmt::format("the target wants AuthMethod={}: we have CHAP", method));
  std::string text;
  add_key(text, "CHAP_A", "5");
  return request(false, std::move(text));
}

std::optional<InitiatorLogin::Request> InitiatorLogin::prove(Keys keys) {
  const std::string_view algorithm = value_of(keys, "CHAP_A");
  if (algorithm != "5")
    return fail(fmt::format("the target wants CHAP_A={}: we have 5 (MD5)", algorithm));
  const auto identifier = iscsi::parse_number(value_of(keys, "CHAP_I"));
  const auto challenge = iscsi::parse_binary(value_of(keys, "CHAP_C"));
  if (!identifier || *identifier > 255 || !challenge || challenge->empty())
    return fail("the target sends no good CHAP_I and CHAP_C");
  std::string text;
  add_key(text, "CHAP_N", settings_.credentials.user);
  add_key(text, "CHAP_R",
          iscsi::hex_text(iscsi::chap_response(static_cast<std::byte>(*identifier),
                                               settings_.credentials.secret, *challenge)));
  if (settings_.target_proves.empty()) return request(true, std::move(text));
  constexpr std::size_t kChallengeBytes = 16;
  challenge_.resize(kChallengeBytes);
  settings_.random(challenge_);
  settings_.random({&identifier_, 1});
  add_key(text, "CHAP_I", fmt::to_string(std::to_integer<unsigned>(identifier_)));
  add_key(text, "CHAP_C", iscsi::hex_text(challenge_));
  return request(true, std::move(text));
}

bool InitiatorLogin::is_trusted(Keys keys) {
  const iscsi::Credentials& wanted = settings_.target_proves;
  if (wanted.empty()) return true;
  if (challenge_.empty()) return fail("the target wants no CHAP: it must prove who it is"), false;
  const std::string_view user = value_of(keys, "CHAP_N");
  if (user != wanted.user)
    return fail(fmt::format("the target is CHAP_N={}: we know {}", user, wanted.user)), false;
  const auto response = iscsi::parse_binary(value_of(keys, "CHAP_R"));
  const auto right = iscsi::chap_response(identifier_, wanted.secret, challenge_);
  if (!response || !std::ranges::equal(*response, right))
    return fail(fmt::format("CHAP_R of target '{}' is wrong: it has another secret", user)), false;
  return true;
}

/// An answer is within what we have offered, or the login fails.
bool InitiatorLogin::take_parameters(Keys keys) {
  std::string ignored;
  for (const Key& key : keys) {
    // Declared, and nothing to us: over iSER other keys say how much may be sent.
    if (key.name == "MaxRecvDataSegmentLength" || key.name == "MaxOutstandingUnexpectedPDUs")
      continue;
    if (key.name == "InitialR2T" && is_no_value(key.value)) parameters_.initial_r2t = 1;
    if (is_no_value(key.value)) continue;
    if (const auto agreed = iscsi::negotiate(key, parameters_, ignored); !agreed)
      return fail(agreed.error()), false;
  }
  if (parameters_.rdma_extensions == 0)
    return fail("the target says RDMAExtensions=No: it serves iSCSI without iSER"), false;
  return true;
}

}  // namespace verbatim::ulp::iser

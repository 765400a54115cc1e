#include "ulp/iscsi/login.h"

#include <algorithm>

#include <fmt/format.h>

namespace verbatim::ulp::iscsi {
namespace {

/// Keys that say who asks for what; the rest is negotiated.
constexpr std::string_view kDeclared[] = {"InitiatorName", "InitiatorAlias", "TargetName",
                                          "SessionType"};
constexpr std::string_view kSecurity[] = {"AuthMethod", "CHAP_A", "CHAP_I",
                                          "CHAP_C",     "CHAP_N", "CHAP_R"};

template <std::size_t N>
bool is_one_of(const std::string_view (&names)[N], std::string_view name) {
  return std::ranges::find(names, name) != std::end(names);
}

const Key* find_key(std::span<const Key> keys, std::string_view name) {
  const auto key = std::ranges::find(keys, name, &Key::name);
  return key == keys.end() ? nullptr : &*key;
}

bool has_duplicates(std::span<const Key> keys) {
  for (std::size_t i = 0; i < keys.size(); ++i) {
    if (find_key(keys.subspan(i + 1), keys[i].name) != nullptr) return true;
  }
  return false;
}

}  // namespace

Login::Answer Login::on_request(const RequestHeader& request, ByteSpan data) {
  Answer answer;
  answer.header.opcode = Opcode::login_response;
  answer.header.flags = request.flags & 0x0c;  // The same stage.
  answer.header.lun = request.lun;
  answer.header.task_tag = request.task_tag;
  const auto checked = on_text(request, data, answer);
  if (!checked) {
    answer.status = checked.error().status;
    answer.words = checked.error().words;
    answer.text.clear();
    answer.header.flags = request.flags & 0x0c;
    answer.is_complete = false;
  }
  answer.header.data_sn = std::uint32_t{static_cast<std::uint16_t>(answer.status)} << 16;
  answer.header.data_bytes = static_cast<std::uint32_t>(answer.text.size());
  return answer;
}

Login::Checked Login::on_text(const RequestHeader& request, ByteSpan data, Answer& answer) {
  if (auto checked = check_header(request); !checked) return checked;
  if (text_.size() + data.size() > kTextBytesMax)
    return fail(LoginStatus::initiator_error, "more than 16384 bytes of keys");
  text_.append(reinterpret_cast<const char*>(data.data()), data.size());
  if (request.has(kContinue)) return {};
  const std::string text = std::exchange(text_, {});
  const auto keys = parse_keys(text);
  if (!keys) return fail(LoginStatus::initiator_error, keys.error());
  if (has_duplicates(*keys)) return fail(LoginStatus::initiator_error, "a key is there twice");
  const bool is_first = initiator_.empty();
  if (auto checked = identify(*keys); !checked) return checked;
  if (is_first && target_ != nullptr)
    add_key(answer.text, "TargetPortalGroupTag", fmt::to_string(target_->tag()));

  const auto stage_checked = *stage_ == Stage::security ? on_security(*keys, answer.text)
                                                        : on_operational(*keys, answer.text);
  if (!stage_checked) return stage_checked;
  if (answer.text.size() > kValueBytesMax)
    return fail(LoginStatus::initiator_error, "the answer to these keys is too long");
  return transit(request, answer);
}

Login::Checked Login::check_header(const RequestHeader& request) {
  if (request.version_min > 0)
    return fail(LoginStatus::unsupported_version,
                fmt::format("version {} or later is asked for: we have 0", request.version_min));
  if (request.has(kFinal) && request.has(kContinue))
    return fail(LoginStatus::initiator_error, "the T and C bits are both set");
  const std::uint8_t stage = request.current_stage();
  if (!stage_) {
    if ((request.lun & 0xffff) != 0)
      return fail(
          LoginStatus::session_does_not_exist,
          fmt::format("a second connection for session {}: one is allowed", request.lun & 0xffff));
    if (stage > 1)
      return fail(LoginStatus::initiator_error, fmt::format("a login in stage {}", stage));
    stage_ = Stage{stage};
    isid_ = request.lun >> 16;
    connection_id_ = request.connection_id();
  }
  if (stage != static_cast<std::uint8_t>(*stage_))
    return fail(LoginStatus::initiator_error,
                fmt::format("a request of stage {} in stage {}", stage,
                            static_cast<std::uint8_t>(*stage_)));
  if (request.lun >> 16 != isid_)
    return fail(LoginStatus::initiator_error, "the ISID has changed within the login");
  return {};
}

/// The first request says who logs in, and where.
Login::Checked Login::identify(std::span<const Key> keys) {
  if (!initiator_.empty()) return {};
  const Key* const name = find_key(keys, "InitiatorName");
  if (name == nullptr) return fail(LoginStatus::missing_parameter, "no InitiatorName");
  if (!is_iscsi_name(name->value))
    return fail(LoginStatus::initiator_error,
                fmt::format("InitiatorName={} is no iSCSI name", name->value));
  initiator_ = name->value;
  if (const Key* const alias = find_key(keys, "InitiatorAlias")) alias_ = alias->value;
  const Key* const type = find_key(keys, "SessionType");
  if (type != nullptr && type->value == "Discovery") return {};
  if (type != nullptr && type->value != "Normal")
    return fail(LoginStatus::session_type_not_supported,
                fmt::format("SessionType={}: Normal or Discovery is expected", type->value));
  const Key* const target = find_key(keys, "TargetName");
  if (target == nullptr) return fail(LoginStatus::missing_parameter, "no TargetName");
  return find_target(target->value);
}

Login::Checked Login::find_target(std::string_view name) {
  target_ = targets_.find(name, own_);
  if (target_ == nullptr)
    return fail(LoginStatus::not_found,
                fmt::format("{} asks for target {}: it is not there", initiator_, name));
  if (!target_->is_enabled())
    return fail(LoginStatus::service_unavailable,
                fmt::format("{} asks for target {}: it is not enabled", initiator_, name));
  if (!target_->admits(initiator_))
    return fail(LoginStatus::forbidden,
                fmt::format("{} is not admitted to target {}", initiator_, name));
  return {};
}

const Authentication& Login::authentication() const {
  return target_ == nullptr ? targets_.discovery_authentication()
                            : target_->authentication_of(initiator_);
}

Login::Checked Login::on_security(std::span<const Key> keys, std::string& text) {
  if (const Key* const method = find_key(keys, "AuthMethod")) {
    const std::string_view ours = authentication().is_required() ? "CHAP" : "None";
    if (!any_of_list(method->value, [&](std::string_view one) { return one == ours; }))
      return fail(
          LoginStatus::authentication_failure,
          fmt::format("AuthMethod={} of {}: {} is expected", method->value, initiator_, ours));
    add_key(text, "AuthMethod", ours);
    has_said_method_ = true;
    if (authentication().is_required()) chap_.emplace(authentication(), targets_.random());
    return {};
  }
  const bool has_chap =
      std::ranges::any_of(keys, [](const Key& key) { return key.name.starts_with("CHAP_"); });
  if (!has_chap) return {};
  if (!chap_) return fail(LoginStatus::initiator_error, "CHAP was not agreed upon");
  if (auto checked = chap_->on_keys(keys, text); !checked)
    return fail(LoginStatus::authentication_failure,
                fmt::format("{}: {}", initiator_, checked.error()));
  return {};
}

Login::Checked Login::on_operational(std::span<const Key> keys, std::string& text) {
  if (must_authenticate())
    return fail(LoginStatus::authentication_failure,
                fmt::format("{} skips authentication: CHAP is required", initiator_));
  for (const Key& key : keys) {
    if (is_one_of(kDeclared, key.name)) continue;
    if (is_one_of(kSecurity, key.name))
      return fail(LoginStatus::initiator_error,
                  fmt::format("{} does not belong to the operational stage", key.name));
    if (auto agreed = negotiate(key, parameters_, text); !agreed)
      return fail(LoginStatus::initiator_error, fmt::format("{}: {}", initiator_, agreed.error()));
  }
  if (!is_iser_ && !has_said_sizes_) {
    add_key(text, "MaxRecvDataSegmentLength", fmt::to_string(parameters_.target_receives));
    has_said_sizes_ = true;
  }
  return {};
}

Login::Checked Login::transit(const RequestHeader& request, Answer& answer) {
  if (!request.has(kFinal)) return {};
  if (*stage_ == Stage::security && must_authenticate()) {
    // As long as CHAP goes on, the stage stays. Who does not want it may not go on.
    if (!has_said_method_)
      return fail(LoginStatus::authentication_failure,
                  fmt::format("{} offers no AuthMethod: CHAP is required", initiator_));
    return {};
  }
  const std::uint8_t next = request.next_stage();
  if (next <= request.current_stage() || next == 2)
    return fail(LoginStatus::initiator_error,
                fmt::format("from stage {} to {}", request.current_stage(), next));
  stage_ = Stage{next};
  answer.header.flags = request.flags & 0x8f;
  if (*stage_ != Stage::full_feature) return {};
  if (is_iser_ && parameters_.rdma_extensions == 0)
    return fail(LoginStatus::initiator_error, "iSER without RDMAExtensions=Yes");
  answer.is_complete = true;
  return {};
}

}  // namespace verbatim::ulp::iscsi

#include "ulp/iscsi/negotiation.h"

#include <algorithm>

#include <fmt/format.h>

namespace verbatim::ulp::iscsi {
namespace {

/// How two values become one.
enum class Rule : std::uint8_t {
  both,    // Yes if both say Yes.
  either,  // Yes if one of them does.
  least,
  most,
  told,      // The initiator says it; there is no answer.
  one_word,  // A list: we know one word of it.
  refused,   // Markers' intervals: there are no markers.
};

using Value = std::uint32_t Parameters::*;
struct Row {
  std::string_view name;
  Rule rule{};
  Value value = nullptr;
  std::uint32_t low = 0, high = 0;
  std::string_view word{};
};

constexpr std::uint32_t kBytesMax = 0xffffff;
constexpr Row kRows[] = {
    {"HeaderDigest", Rule::one_word, nullptr, 0, 0, "None"},
    {"DataDigest", Rule::one_word, nullptr, 0, 0, "None"},
    {"TaskReporting", Rule::one_word, nullptr, 0, 0, "RFC3720"},
    {"MaxConnections", Rule::least, &Parameters::max_connections, 1, 65535},
    {"InitialR2T", Rule::either, &Parameters::initial_r2t},
    {"ImmediateData", Rule::both, &Parameters::immediate_data},
    {"MaxRecvDataSegmentLength", Rule::told, &Parameters::initiator_receives, 512, kBytesMax},
    {"MaxBurstLength", Rule::least, &Parameters::max_burst, 512, kBytesMax},
    {"FirstBurstLength", Rule::least, &Parameters::first_burst, 512, kBytesMax},
    {"DefaultTime2Wait", Rule::most, &Parameters::time_to_wait, 0, 3600},
    {"DefaultTime2Retain", Rule::least, &Parameters::time_to_retain, 0, 3600},
    {"MaxOutstandingR2T", Rule::least, &Parameters::outstanding_r2t, 1, 65535},
    {"DataPDUInOrder", Rule::either, &Parameters::data_pdu_in_order},
    {"DataSequenceInOrder", Rule::either, &Parameters::data_sequence_in_order},
    {"ErrorRecoveryLevel", Rule::least, &Parameters::error_recovery_level, 0, 2},
    {"IFMarker", Rule::both, &Parameters::markers},
    {"OFMarker", Rule::both, &Parameters::markers},
    {"IFMarkInt", Rule::refused},
    {"OFMarkInt", Rule::refused},
    {"iSCSIProtocolLevel", Rule::least, &Parameters::protocol_level, 0, 31},
    {"RDMAExtensions", Rule::both, &Parameters::rdma_extensions},
    {"InitiatorRecvDataSegmentLength", Rule::least, &Parameters::initiator_receives, 512,
     kBytesMax},
    {"TargetRecvDataSegmentLength", Rule::least, &Parameters::target_receives, 512, kBytesMax},
    {"MaxOutstandingUnexpectedPDUs", Rule::told, &Parameters::unexpected_pdus, 0, 0xffff'ffff},
};

std::expected<void, std::string> refused(const Key& key, std::string_view why) {
  return std::unexpected(fmt::format("{}={}: {}", key.name, key.value, why));
}

std::expected<void, std::string> negotiate_word(const Row& row, const Key& key,
                                                std::string& answer) {
  const auto is_ours = [&](std::string_view item) { return item == row.word; };
  if (!any_of_list(key.value, is_ours)) return refused(key, fmt::format("we have {}", row.word));
  return add_key(answer, row.name, row.word), std::expected<void, std::string>{};
}

std::expected<void, std::string> negotiate_choice(const Row& row, const Key& key,
                                                  Parameters& values, std::string& answer) {
  if (key.value != "Yes" && key.value != "No") return refused(key, "Yes or No is expected");
  const std::uint32_t theirs = key.value == "Yes" ? 1 : 0;
  std::uint32_t& ours = values.*row.value;
  ours = row.rule == Rule::both ? ours & theirs : ours | theirs;
  return add_key(answer, row.name, ours != 0 ? "Yes" : "No"), std::expected<void, std::string>{};
}

std::expected<void, std::string> negotiate_number(const Row& row, const Key& key,
                                                  Parameters& values, std::string& answer) {
  const auto theirs = parse_number(key.value);
  if (!theirs || *theirs < row.low || *theirs > row.high)
    return refused(key, fmt::format("{} to {} is expected", row.low, row.high));
  std::uint32_t& ours = values.*row.value;
  if (row.rule == Rule::told) return ours = *theirs, std::expected<void, std::string>{};
  ours = row.rule == Rule::least ? std::min(ours, *theirs) : std::max(ours, *theirs);
  return add_key(answer, row.name, fmt::to_string(ours)), std::expected<void, std::string>{};
}

}  // namespace

std::expected<void, std::string> negotiate(const Key& key, Parameters& values,
                                           std::string& answer) {
  const auto row = std::ranges::find(kRows, key.name, &Row::name);
  if (row == std::end(kRows))
    return add_key(answer, key.name, "NotUnderstood"), std::expected<void, std::string>{};
  switch (row->rule) {
    case Rule::one_word:
      return negotiate_word(*row, key, answer);
    case Rule::both:
    case Rule::either:
      return negotiate_choice(*row, key, values, answer);
    case Rule::refused:
      return add_key(answer, key.name, "Reject"), std::expected<void, std::string>{};
    case Rule::least:
    case Rule::most:
    case Rule::told:
      break;
  }
  return negotiate_number(*row, key, values, answer);
}

}  // namespace verbatim::ulp::iscsi

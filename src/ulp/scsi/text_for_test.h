#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "base/overloaded.h"
#include "base/types.h"
#include "ulp/scsi/plan.h"

/// Plans and bytes as text, for tests.
namespace verbatim::ulp::scsi {

inline std::vector<std::byte> bytes_of_hex(std::string_view hex) {
  std::vector<std::byte> bytes;
  std::string digits;
  for (const char c : hex) {
    if (c != ' ') digits += c;
    if (digits.size() < 2) continue;
    bytes.push_back(static_cast<std::byte>(std::stoi(digits, nullptr, 16)));
    digits.clear();
  }
  return bytes;
}
inline std::string hex_of(ByteSpan bytes) {
  std::string hex;
  for (const std::byte byte : bytes) hex += fmt::format("{:02x}", std::to_integer<unsigned>(byte));
  return hex;
}

/// "5/2400 @1.7": key, code, byte and bit of the field.
inline std::string text(const Sense& sense) {
  std::string text = fmt::format("{:x}/{:04x}", raw(sense.key), raw(sense.code));
  if (sense.information) text += fmt::format(" i{}", *sense.information);
  if (sense.field) {
    text += fmt::format(" {}{}", sense.field->is_in_parameters ? "p" : "@", sense.field->byte);
    if (sense.field->bit) text += fmt::format(".{}", *sense.field->bit);
  }
  return text;
}
inline std::string text(const Answer& answer) {
  std::string text = answer.status == Status::good ? "good" : "check";
  if (answer.status == Status::busy) text = "busy";
  if (answer.status == Status::task_aborted) text = "aborted";
  if (answer.status == Status::reservation_conflict) text = "conflict";
  if (answer.sense) text += " " + scsi::text(*answer.sense);
  if (!answer.data.empty()) text += fmt::format(" {}", answer.data.size());
  return text;
}
inline std::string text(const Step& step) {
  return std::visit(
      Overloaded{
          [](const Answer& s) { return text(s); },
          [](const ReadBlocks& s) { return fmt::format("read +{} {}", s.offset, s.bytes); },
          [](const WriteBlocks& s) {
            return fmt::format("write +{} {}{}{}", s.offset, s.bytes, s.to_stable ? " stable" : "",
                               s.verify_after ? " verify" : "");
          },
          [](const VerifyBlocks& s) {
            return fmt::format("verify +{} {}{}", s.offset, s.bytes, s.compares ? " compare" : "");
          },
          [](const SyncBlocks&) { return std::string("flush"); },
          [](const ClearBlocks& s) {
            std::string text = s.may_deallocate ? "unmap" : "zero";
            for (std::size_t i = 0; i < s.ranges.size(); ++i)
              text += fmt::format(" +{} {}", s.ranges[i].offset, s.ranges[i].bytes);
            return text;
          },
          [](const RepeatBlock& s) {
            return fmt::format("repeat {} +{} {}{}", s.block_bytes, s.range.offset, s.range.bytes,
                               s.may_deallocate ? " unmap" : "");
          },
          [](const CompareAndWrite& s) {
            return fmt::format("compare and write +{} {}{}", s.offset, s.bytes,
                               s.to_stable ? " stable" : "");
          },
          [](const CopyBlocks& s) {
            return fmt::format("copy {} +{} to {} +{} {}", raw(s.from), s.from_offset, raw(s.to),
                               s.to_offset, s.bytes);
          },
          [](const NeedsParameters& s) { return fmt::format("parameters {}", s.bytes); },
      },
      step);
}
inline std::string text(const Residual& residual) {
  std::string text;
  if (residual.out != 0) text += fmt::format(", out {:+}", residual.out);
  if (residual.in != 0) text += fmt::format(", in {:+}", residual.in);
  return text;
}
inline std::string text(const Plan& plan) { return text(plan.step) + text(plan.residual); }

}  // namespace verbatim::ulp::scsi

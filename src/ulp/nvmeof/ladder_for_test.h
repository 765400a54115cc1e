#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "base/overloaded.h"
#include "ulp/nvmeof/wire/command.h"
#include "ulp/storage/session.h"

/// What an engine puts out, as text: tests compare it line by line.
namespace verbatim::ulp::nvmeof {

inline std::vector<std::byte> bytes_of(std::string_view hex) {
  std::vector<std::byte> bytes;
  for (std::size_t i = 0; i < hex.size(); i += 2)
    bytes.push_back(static_cast<std::byte>(std::stoi(std::string(hex.substr(i, 2)), nullptr, 16)));
  return bytes;
}

inline std::string hex_of(ByteSpan bytes) {
  std::string hex;
  for (const std::byte byte : bytes) hex += fmt::format("{:02x}", std::to_integer<unsigned>(byte));
  return hex;
}

class Ladder {
 public:
  Tag tag{};             // Of the last request that has one.
  std::string response;  // The last SEND's bytes.

 protected:
  /// What `out_` has, which is empty then.
  std::string printed() {
    std::vector<std::string> lines;
    for (const auto& request : out_.store)
      lines.push_back(std::visit([this](const auto& r) { return text(r); }, request));
    for (const auto& work : out_.work)
      lines.push_back(std::visit([this](const auto& w) { return text(w); }, work));
    out_.clear();
    return fmt::format("{}", fmt::join(lines, ", "));
  }
  std::string text(const storage::Borrow& b) {
    return tag = b.tag, fmt::format("borrow {} +{} {}", raw(b.unit), b.offset, b.bytes);
  }
  std::string text(const storage::Put& p) {
    return tag = p.tag, fmt::format("put {} +{} {}{}", raw(p.unit), p.offset, ulp::bytes_of(p.from),
                                    p.to_stable ? " stable" : "");
  }
  std::string text(const storage::GiveBack&) { return "give back"; }
  std::string text(const storage::Flush& f) {
    return tag = f.tag, fmt::format("flush {}", raw(f.unit));
  }
  std::string text(const storage::Clear& c) {
    return tag = c.tag, fmt::format("clear {} +{} {}", raw(c.unit), c.offset, c.bytes);
  }
  std::string text(const Write& w) {
    return fmt::format("WRITE {} to {:#x} key {:#x}", ulp::bytes_of(w.from), w.to.address,
                       raw(w.to.remote_key));
  }
  std::string text(const Read& r) {
    return tag = r.done, fmt::format("READ {} from {:#x} key {:#x}", ulp::bytes_of(r.into),
                                     r.from.address, raw(r.from.remote_key));
  }
  std::string text(const Send& s) {
    tag = s.done;
    response = hex_of(s.header);
    const auto completion = decode_completion(s.header);
    return fmt::format("SEND {:#x} head {}{}", raw(completion->status), completion->queue_head,
                       s.invalidate ? fmt::format(" invalidate {:#x}", raw(*s.invalidate)) : "");
  }
  std::string text(const PostAgain& p) { return fmt::format("post {}", raw(p.receive)); }
  std::string text(const Disconnect& d) { return fmt::format("disconnect: {}", d.reason); }

  storage::Output out_;
};

}  // namespace verbatim::ulp::nvmeof

#include <algorithm>
#include <fstream>
#include <random>
#include <string>

#include <fmt/format.h>
#include <unistd.h>

#include "ulp/disk/target.h"
#include "ulp/iscsi/md5.h"
#include "ulp/iscsi/wire/text.h"

/// Who we are to targets, whose administrators admit initiators by name.
namespace verbatim::ulp::disk {
namespace {

std::string first_line(const char* path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

/// "InitiatorName=iqn..." among comments.
std::string name_of_open_iscsi() {
  constexpr std::string_view kKey = "InitiatorName=";
  std::ifstream file("/etc/iscsi/initiatorname.iscsi");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with(kKey) && iscsi::is_iscsi_name(line.substr(kKey.size())))
      return line.substr(kKey.size());
  }
  return {};
}

}  // namespace

std::optional<std::array<std::byte, 16>> parse_host_id(std::string_view text) {
  std::array<std::byte, 16> id{};
  std::size_t digits = 0;
  for (const char c : text) {
    if (c == '-') continue;
    const char lower = static_cast<char>(c | 0x20);
    const bool is_number = c >= '0' && c <= '9', is_letter = lower >= 'a' && lower <= 'f';
    if (digits == 2 * id.size() || (!is_number && !is_letter)) return {};
    const int value = is_number ? c - '0' : lower - 'a' + 10;
    id[digits / 2] |= static_cast<std::byte>(digits % 2 == 0 ? value << 4 : value);
    ++digits;
  }
  return digits == 2 * id.size() ? std::optional(id) : std::nullopt;
}

Identity own_identity() {
  const std::string seed = fmt::format("verbatim {} {}", first_line("/etc/machine-id"), getuid());
  const iscsi::Md5 digest = iscsi::md5(std::as_bytes(std::span(seed)));
  std::string hex = iscsi::hex_text(digest).substr(2);  // Behind "0x".
  Identity self;
  self.iqn = name_of_open_iscsi();
  if (self.iqn.empty())
    self.iqn = fmt::format("iqn.2026-01.invalid.verbatim:{}", hex.substr(0, 12));
  self.nqn = first_line("/etc/nvme/hostnqn");
  if (self.nqn.empty()) {
    self.nqn = fmt::format("nqn.2014-08.org.nvmexpress:uuid:{}-{}-{}-{}-{}", hex.substr(0, 8),
                           hex.substr(8, 4), hex.substr(12, 4), hex.substr(16, 4), hex.substr(20));
  }
  std::ranges::copy(std::span(digest).first(self.host_id.size()), self.host_id.begin());
  if (const auto id = parse_host_id(first_line("/etc/nvme/hostid"))) self.host_id = *id;
  // Random (type 2, RFC 7143, 11.12.5): no other process's session is ended by ours.
  std::random_device random;
  constexpr std::uint64_t kRandomType = 0x80;
  self.session = kRandomType << 40 | std::uint64_t{random() & 0xffffff} << 16 | (random() & 0xffff);
  return self;
}

}  // namespace verbatim::ulp::disk

#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "ulp/iscsi/chap.h"
#include "ulp/rdma/service_place.h"
#include "ulp/storage/initiator.h"

namespace verbatim::ulp::disk {

/// Who we are to targets.
struct Identity {
  std::string iqn;                      // iSCSI: /etc/iscsi/initiatorname.iscsi, else made up.
  std::string nqn;                      // NVMe: /etc/nvme/hostnqn.
  std::array<std::byte, 16> host_id{};  // NVMe: /etc/nvme/hostid.
  std::uint64_t session = 0;            // iSCSI's ISID: of this process.
  iscsi::Credentials target_proves{};   // Mutual CHAP. Empty: none.
  iscsi::Credentials credentials{};     // CHAP. Empty: none.
};
/// What the system says, else made of the machine's id and the user's number, so that it stays.
Identity own_identity();

/// A UUID, with dashes or without.
std::optional<std::array<std::byte, 16>> parse_host_id(std::string_view text);

/// What a session has of its process.
struct OwnSide {
  storage::PeerMemory scratch;
  std::uint64_t guid = 0;  // SRP: the lower half of the port's GID.
};

/// What a URL names: where it is, and how to begin a session with it.
struct Target {
  std::string url;
  rdma::ServicePlace place;
  std::function<std::unique_ptr<storage::Initiator>(const OwnSide& own)> begin;
  /// SRP: the target's port and our extension. Logins with equal ones end each other.
  std::string exclusive{};
};

/// `SCHEME://HOST[:PORT]/NAME/UNIT`: an IP address or a host's name, IPv6 in brackets. EINVAL says
/// what is expected.
///
///     iser://10.0.0.1/iqn.2026-01.com.example:disk/0
///     nvme://[fe80::1%eth0]:4420/nqn.2026-01.com.example:disk/1
///     srp://id_ext=...,ioc_guid=...,dest=10.0.0.1:4242         what srp_daemon writes, /UNIT
///     behind
Result<Target> parse_target(const std::string& url, const Identity& identity);

inline constexpr std::size_t kPathsMax = 8;
/// One disk by several paths, an initiator port each. EINVAL: two that one target would take for
/// one, whose logins would end each other.
Result<std::vector<Target>> parse_paths(std::span<const std::string> urls, Identity identity);

}  // namespace verbatim::ulp::disk

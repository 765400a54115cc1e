#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/net/address.h"
#include "base/types.h"
#include "ulp/srp/initiator/initiator.h"

namespace verbatim::ulp::srp {

/// A target as `srp_daemon` and administrators write it to Linux's add_target:
///
///     id_ext=16hex,ioc_guid=16hex,dgid=32hex,pkey=ffff,service_id=16hex   by the InfiniBand CM
///     id_ext=16hex,ioc_guid=16hex,dest=IP:PORT                            by rdma_cm
struct AddTarget {
  std::uint64_t extension = 0, guid = 0;
  std::uint64_t initiator_extension = 0;
  // By the InfiniBand CM.
  std::optional<Gid> gid;
  PKey pkey = kDefaultPKey;
  std::optional<std::uint64_t> service;
  // By rdma_cm.
  SocketAddress to, from;  // `from` may be empty.

  std::uint32_t sectors_max = 2048;    // Of 512 bytes: max_sect.
  std::uint32_t requests = 64;         // queue_size.
  std::uint32_t unit_requests = 62;    // max_cmd_per_lun.
  std::uint32_t message_bytes = 8260;  // max_it_iu_size.

  bool is_by_ip() const { return !to.empty(); }
};

/// Errors as Linux's: EINVAL with words for unknown keys, bad values and what is missing. The rest
/// of its keys are taken and have no effect here.
Result<AddTarget> parse_add_target(std::string_view line);
/// What `srp_daemon` writes: "id_ext=...,ioc_guid=...,dgid=...,pkey=...,service_id=..."; or dest=.
std::string text_of(const AddTarget& target);

/// `guid`: the initiator's, the lower half of its port's GID.
InitiatorSettings settings_for(const AddTarget& target, std::uint64_t guid);

}  // namespace verbatim::ulp::srp

#include "dropin/ibverbs/control/usage.h"

#include <algorithm>
#include <bit>

#include <fmt/format.h>
#include <linux/capability.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "adapter/limits.h"
#include "base/os/page.h"

namespace verbatim::dropin {
namespace {

struct Counted {
  const char* name;
  const char* key;
  std::uint32_t config::DeviceLimits::* limit;
};
/// Indexed by Resource.
constexpr std::array<Counted, kResources> kCounted{{
    {"queue pairs", "max_qp", &config::DeviceLimits::max_qp},
    {"completion queues", "max_cq", &config::DeviceLimits::max_cq},
    {"memory regions", "max_mr", &config::DeviceLimits::max_mr},
    {"memory windows", "max_mw", &config::DeviceLimits::max_mw},
    {"protection domains", "max_pd", &config::DeviceLimits::max_pd},
    {"shared receive queues", "max_srq", &config::DeviceLimits::max_srq},
    {"address handles", "max_ah", &config::DeviceLimits::max_ah},
}};

/// Checks the calling thread's capability, as the kernel does.
bool may_lock_memory() {
  __user_cap_header_struct header{.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
  std::array<__user_cap_data_struct, _LINUX_CAPABILITY_U32S_3> sets{};
  if (syscall(SYS_capget, &header, sets.data()) != 0) return false;
  return (sets[CAP_TO_INDEX(CAP_IPC_LOCK)].effective & CAP_TO_MASK(CAP_IPC_LOCK)) != 0;
}

constexpr std::uint64_t kKibibyte = 1024;

// No device has more than the adapter.
using adapter::Limits;
constexpr config::DeviceLimits kOwn = config::kVerbatimLimits;
static_assert(kOwn.max_qp == Limits::queue_pairs);
static_assert(kOwn.max_qp_wr == Limits::requests && kOwn.max_srq_wr == Limits::requests);
static_assert(kOwn.max_sge == Limits::segments && kOwn.max_srq_sge == Limits::segments);
static_assert(kOwn.max_inline_data == Limits::inline_bytes);
static_assert(kOwn.max_cq == Limits::completion_queues && kOwn.max_cqe == Limits::completions);
static_assert(kOwn.max_mr == Limits::regions && kOwn.max_mw == Limits::regions);
static_assert(kOwn.max_pd == Limits::protection_domains);
static_assert(kOwn.max_srq == Limits::shared_receive_queues);
static_assert(kOwn.max_ah == Limits::address_handles);
static_assert(kOwn.max_qp_rd_atom == Limits::rd_atomic);
static_assert(kOwn.max_qp_init_rd_atom == Limits::rd_atomic);

}  // namespace

Share::~Share() {
  if (usage_ == nullptr) return;
  usage_->unlock(locked_pages_);
  usage_->give_back(resource_);
}

Result<void> Share::lock(std::uint64_t pages) {
  if (auto locked = usage_->lock(pages); !locked) return locked;
  locked_pages_ += pages;
  return {};
}

Result<Share> Usage::take(Resource resource) {
  const auto index = static_cast<std::size_t>(resource);
  const Counted& counted = kCounted[index];
  const std::uint32_t limit = limits_.*counted.limit;
  if (counts_[index].fetch_add(1, std::memory_order_relaxed) < limit) return Share(this, resource);
  give_back(resource);
  return refuse(ENOMEM, fmt::format("the device has {} {} ({}), and all are in use", limit,
                                    counted.name, counted.key));
}

Result<Share> Usage::take(Resource resource, std::uint64_t pages) {
  auto share = take(resource);
  if (!share) return share;
  if (auto locked = share->lock(pages); !locked) return std::unexpected(locked.error());
  return share;
}

void Usage::give_back(Resource resource) {
  if (resource == Resource::none) return;
  counts_[static_cast<std::size_t>(resource)].fetch_sub(1, std::memory_order_relaxed);
}

Result<void> Usage::lock(std::uint64_t pages) {
  if (!enforces_memlock_) return {};
  rlimit limit{};
  if (getrlimit(RLIMIT_MEMLOCK, &limit) != 0) return refuse_errno("getrlimit");
  const std::uint64_t before = locked_pages_.fetch_add(pages, std::memory_order_relaxed);
  const std::uint64_t most = limit.rlim_cur / page_bytes();
  if (limit.rlim_cur == RLIM_INFINITY || before + pages <= most || may_lock_memory()) return {};
  unlock(pages);
  const auto kibibytes = [](std::uint64_t of_pages) { return of_pages * page_bytes() / kKibibyte; };
  return refuse(
      ENOMEM,
      fmt::format(
          "{} KiB more than the {} KiB that are locked would exceed the limit of {} KiB for "
          "locked memory: raise it (ulimit -l, or memlock in /etc/security/limits.conf), or "
          "say memlock = no in the node's file",
          kibibytes(pages), kibibytes(before), kibibytes(most)));
}

Result<void> check_limit(const char* what, std::uint32_t value, std::uint32_t limit) {
  if (value <= limit) return {};
  return refuse(EINVAL, fmt::format("{} {} is above {}", what, value, limit));
}

std::uint64_t pages_of(const void* address, std::uint64_t length) {
  if (length == 0) return 0;
  const auto first = reinterpret_cast<std::uint64_t>(address);
  return (first + length - 1) / page_bytes() - first / page_bytes() + 1;
}

namespace {

constexpr std::uint64_t kSegmentBytes = 16;
constexpr std::uint64_t kBlockBytes = 64;

std::uint64_t pages_for(std::uint64_t bytes) { return pages_of(nullptr, bytes); }

}  // namespace

std::uint64_t send_queue_pages(std::uint32_t requests, std::uint32_t segments,
                               std::uint32_t inline_bytes) {
  constexpr std::uint64_t kControlBytes = 32;  // Control and remote address segments.
  const std::uint64_t data = std::max<std::uint64_t>(segments * kSegmentBytes, inline_bytes);
  const std::uint64_t blocks = (kControlBytes + data + kBlockBytes - 1) / kBlockBytes;
  return pages_for(requests * blocks * kBlockBytes);
}

std::uint64_t receive_queue_pages(std::uint32_t requests, std::uint32_t segments) {
  return pages_for(requests * std::bit_ceil(std::uint64_t{segments}) * kSegmentBytes);
}

std::uint64_t completion_queue_pages(std::uint32_t entries) {
  return pages_for(entries * kBlockBytes);
}

}  // namespace verbatim::dropin

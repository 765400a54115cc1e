#include "verbatim/memory.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "api/bytes.h"
#include "api/handles.h"
#include "api/party.h"
#include "api/shared_receives.h"

namespace verbatim::inline v1 {
namespace {

// A larger alignment would waste memory on systems with larger pages.
constexpr std::size_t kPageBytes = 4096;

const char* why_not_registered(int code) {
  switch (code) {
    case ENOMEM:
      return "no memory, or more than may be locked (ulimit -l)";
    case EFAULT:
      return "the memory is not mapped, or read-only";
    case EINVAL:
      return "no bytes, or remote rights without local_write";
    default:
      return "the adapter refuses the memory";
  }
}

constexpr std::byte kMark{'V'};
constexpr std::byte kForm{1};

}  // namespace

std::array<std::byte, RegionToken::kBytes> RegionToken::to_bytes() const noexcept {
  std::array<std::byte, kBytes> bytes{kMark, kForm};
  std::byte* at = bytes.data() + 2;
  detail::put(at, static_cast<std::uint16_t>(rights));
  detail::put(at, remote_key);
  detail::put(at, address);
  detail::put(at, size);
  return bytes;
}

Result<RegionToken> RegionToken::from_bytes(std::span<const std::byte> bytes) {
  if (bytes.size() < kBytes || bytes[0] != kMark || bytes[1] != kForm) {
    return Failure{.status = Status::bad_format, .detail = "these bytes are no region token"};
  }
  const std::byte* at = bytes.data() + 2;
  RegionToken token;
  token.rights = static_cast<Access>(detail::take<std::uint16_t>(at));
  token.remote_key = detail::take<std::uint32_t>(at);
  token.address = detail::take<std::uint64_t>(at);
  token.size = detail::take<std::uint64_t>(at);
  return token;
}

namespace detail {

Registration::~Registration() {
  if (region != nullptr) ibv_dereg_mr(region);
  std::free(allocated);
}

DomainHandle::~DomainHandle() {
  retired_.clear();
  if (domain != nullptr) ibv_dealloc_pd(domain);
}

void DomainHandle::add(Party& party) {
  const std::lock_guard lock(mutex_);
  parties_.push_back(&party);
}

void DomainHandle::add(SharedReceives& receives) {
  const std::lock_guard lock(mutex_);
  shared_.push_back(&receives);
}

void DomainHandle::remove(Party& party) {
  {
    const std::lock_guard lock(mutex_);
    std::erase(parties_, &party);
    drop(&party);
  }
  reclaim();
}

void DomainHandle::remove(SharedReceives& receives) {
  {
    const std::lock_guard lock(mutex_);
    std::erase(shared_, &receives);
    drop(&receives);
  }
  reclaim();
}

void DomainHandle::drop(const void* user) {
  for (Retired& retired : retired_) {
    std::erase_if(retired.until, [user](const Until& until) { return until.user == user; });
  }
}

void DomainHandle::retire(std::unique_ptr<Registration> registration) {
  reclaim();
  Retired retired;
  {
    const std::lock_guard lock(mutex_);
    for (const Party* party : parties_) {
      if (party->sends.in_flight() == 0 && party->receives.in_flight() == 0) continue;
      retired.until.push_back({party, party->sends.posted(), party->receives.posted()});
    }
    for (const SharedReceives* receives : shared_) {
      if (receives->ended() < receives->posted())
        retired.until.push_back({receives, 0, receives->posted()});
    }
    if (!retired.until.empty()) {
      // Otherwise the domain would wait for itself.
      registration->domain.reset();
      retired.registration = std::move(registration);
      retired_.push_back(std::move(retired));
    }
  }
}

bool DomainHandle::has_passed(const Until& until) const {
  for (const Party* party : parties_) {
    if (party == until.user) {
      return party->sends.completed() >= until.sends &&
             party->receives.completed() >= until.receives;
    }
  }
  for (const SharedReceives* receives : shared_) {
    if (receives == until.user) return receives->ended() >= until.receives;
  }
  return true;
}

void DomainHandle::reclaim() {
  std::list<Retired> free;
  const std::lock_guard lock(mutex_);
  for (auto retired = retired_.begin(); retired != retired_.end();) {
    const auto next = std::next(retired);
    std::erase_if(retired->until, [this](const Until& until) { return has_passed(until); });
    if (retired->until.empty()) free.splice(free.end(), retired_, retired);
    retired = next;
  }
}

}  // namespace detail

// RegisteredMemory, Buffer
// ------------------------------------------------------------------------------

RegisteredMemory::RegisteredMemory(std::unique_ptr<detail::Registration> registration,
                                   std::span<std::byte> bytes)
    : registration_(std::move(registration)),
      bytes_(bytes),
      local_key_(registration_->region->lkey) {}

RegisteredMemory::RegisteredMemory(RegisteredMemory&& other) noexcept
    : registration_(std::move(other.registration_)),
      bytes_(std::exchange(other.bytes_, {})),
      local_key_(std::exchange(other.local_key_, 0)) {}

RegisteredMemory& RegisteredMemory::operator=(RegisteredMemory&& other) noexcept {
  registration_ = std::move(other.registration_);
  bytes_ = std::exchange(other.bytes_, {});
  local_key_ = std::exchange(other.local_key_, 0);
  return *this;
}

RegisteredMemory::~RegisteredMemory() = default;

ibv_mr* RegisteredMemory::native() const noexcept {
  return registration_ ? registration_->region : nullptr;
}

RegionToken RegisteredMemory::token(std::size_t offset, std::size_t length) const noexcept {
  if (!registration_ || offset > size() || length > size() - offset) return {};
  return {.address = reinterpret_cast<std::uintptr_t>(bytes_.data()) + offset,
          .size = length,
          .remote_key = registration_->region->rkey,
          .rights = registration_->rights};
}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  if (this == &other) return *this;
  if (registration_) registration_->domain->retire(std::move(registration_));
  RegisteredMemory::operator=(std::move(other));
  return *this;
}

Buffer::~Buffer() {
  if (!registration_) return;
  const std::shared_ptr<detail::DomainHandle> domain = registration_->domain;
  domain->retire(std::move(registration_));
}

// ProtectionDomain
// --------------------------------------------------------------------------------------

Result<ProtectionDomain> Context::allocate_domain() const {
  auto handle = std::make_shared<detail::DomainHandle>(*this);
  handle->domain = ibv_alloc_pd(native());
  if (handle->domain == nullptr) {
    return detail::refused(Call::allocate_domain, errno,
                           "the device has no more (ibv_devinfo -v: max_pd)");
  }
  return ProtectionDomain(std::move(handle));
}

Result<RegisteredMemory> ProtectionDomain::register_memory(std::span<std::byte> memory,
                                                           Access access) const {
  handle_->reclaim();
  auto registration = std::make_unique<detail::Registration>();
  registration->domain = handle_;
  registration->rights = access;
  registration->region =
      ibv_reg_mr(native(), memory.data(), memory.size(), static_cast<int>(access));
  if (registration->region == nullptr) {
    return detail::refused(Call::register_memory, errno, why_not_registered(errno));
  }
  return RegisteredMemory(std::move(registration), memory);
}

Result<Buffer> ProtectionDomain::allocate(std::size_t size, Access access) const {
  handle_->reclaim();
  const std::size_t whole = (size + kPageBytes - 1) / kPageBytes * kPageBytes;
  auto registration = std::make_unique<detail::Registration>();
  registration->domain = handle_;
  registration->rights = access;
  registration->allocated = whole < size ? nullptr : std::aligned_alloc(kPageBytes, whole);
  if (registration->allocated == nullptr)
    return detail::refused(Call::register_memory, ENOMEM, "no memory");
  std::memset(registration->allocated, 0, whole);
  registration->region =
      ibv_reg_mr(native(), registration->allocated, size, static_cast<int>(access));
  if (registration->region == nullptr) {
    return detail::refused(Call::register_memory, errno, why_not_registered(errno));
  }
  const std::span bytes(static_cast<std::byte*>(registration->allocated), size);
  return Buffer(std::move(registration), bytes);
}

Result<AtomicCell> ProtectionDomain::allocate_atomic(std::uint64_t value) const {
  auto buffer = allocate(sizeof value);
  if (!buffer) return buffer.error();
  AtomicCell cell(std::move(*buffer));
  cell.store(value);
  return cell;
}

const Context& ProtectionDomain::context() const noexcept { return handle_->context; }
ibv_pd* ProtectionDomain::native() const noexcept { return handle_->domain; }

}  // namespace verbatim::inline v1

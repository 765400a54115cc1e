#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include <verbatim/context.h>

/// Tells compilers that support it (clang) that a function's result must not outlive the argument
/// or object: a slice of a temporary buffer causes a warning.
#if defined(__clang__)
#define VERBATIM_LIFETIME_BOUND [[clang::lifetimebound]]
#else
#define VERBATIM_LIFETIME_BOUND
#endif

namespace verbatim::inline v1 {

/// Rights of peers, and of the local adapter, on registered memory.
enum class Access : unsigned {
  local_read = 0,
  local_write = IBV_ACCESS_LOCAL_WRITE,  ///< Receives and READs store their bytes here.
  remote_read = IBV_ACCESS_REMOTE_READ,
  remote_write = IBV_ACCESS_REMOTE_WRITE,
  remote_atomic = IBV_ACCESS_REMOTE_ATOMIC,
  all = local_write | remote_read | remote_write | remote_atomic,
};
constexpr Access operator|(Access a, Access b) {
  return static_cast<Access>(static_cast<unsigned>(a) | static_cast<unsigned>(b));
}

/// Bytes of this process's registered memory, for a request. A value, which owns nothing.
struct Slice {
  std::byte* data = nullptr;
  std::uint32_t size = 0;  ///< Bytes.
  std::uint32_t local_key = 0;
  bool is_valid = true;  ///< False: it was cut outside its memory; a post refuses it.
};

/// Bytes of a peer's registered memory. A value.
struct RemoteSlice {
  std::uint64_t address = 0;  ///< In the peer's address space.
  std::uint64_t size = 0;     ///< Bytes.
  std::uint32_t remote_key = 0;
  bool is_valid = true;  ///< As in `Slice`.
};

/// What a peer needs in order to access memory: send it to the peer by any means. Its byte form is
/// fixed:
///
///     byte  0        1        2-3        4-7          8-15       16-23
///          +--------+--------+----------+------------+----------+----------+
///          | 'V'    | form 1 | rights   | remote key | address  | size     |   big-endian
///          +--------+--------+----------+------------+----------+----------+
///
/// The rights are `Access` bits, for information; the adapter enforces them.
struct RegionToken {
  static constexpr std::size_t kBytes = 24;

  std::uint64_t address = 0;
  std::uint64_t size = 0;
  std::uint32_t remote_key = 0;
  Access rights = Access::local_read;

  std::array<std::byte, kBytes> to_bytes() const noexcept;
  /// Reads the first `kBytes`. Bytes after them are ignored: the caller's, or the zeros with which
  /// rdma_cm pads data (`QueuePair::peer_data`). Fails with `Status::bad_format`, also for fewer
  /// bytes.
  static Result<RegionToken> from_bytes(std::span<const std::byte> bytes);

  RemoteSlice slice(std::uint64_t offset, std::uint64_t length) const noexcept {
    const bool fits = offset <= size && length <= size - offset;
    return {address + offset, length, remote_key, fits};
  }
  operator RemoteSlice() const noexcept { return slice(0, size); }
  friend bool operator==(const RegionToken&, const RegionToken&) = default;
};

namespace detail {
struct Registration;  // A memory region, and its memory if allocated by the library.
}

/// Registered memory of the caller, who must keep it allocated while this object exists. The
/// destructor deregisters it: the adapter does not access the bytes afterwards, and a request that
/// still names them fails with `Status::local_protection`, or at a peer with `remote_access`.
class RegisteredMemory {
 public:
  std::span<std::byte> bytes() const noexcept { return bytes_; }
  std::size_t size() const noexcept { return bytes_.size(); }

  /// Returns the whole memory; an invalid slice if it is larger than 4 GiB - 1, which no request
  /// can name.
  Slice slice() const noexcept VERBATIM_LIFETIME_BOUND { return slice(0, size()); }
  Slice slice(std::size_t offset, std::size_t length) const noexcept VERBATIM_LIFETIME_BOUND {
    const bool fits = offset <= size() && length <= size() - offset && length <= UINT32_MAX;
    return {bytes_.data() + (fits ? offset : 0), static_cast<std::uint32_t>(length), local_key_,
            fits};
  }
  RegionToken token() const noexcept { return token(0, size()); }
  /// Returns the token of a part; its `size` is 0 if the part is not within the memory.
  RegionToken token(std::size_t offset, std::size_t length) const noexcept;

  ibv_mr* native() const noexcept;

  RegisteredMemory(RegisteredMemory&&) noexcept;
  RegisteredMemory& operator=(RegisteredMemory&&) noexcept;
  ~RegisteredMemory();

 protected:
  friend class ProtectionDomain;
  RegisteredMemory(std::unique_ptr<detail::Registration> registration, std::span<std::byte> bytes);

  std::unique_ptr<detail::Registration> registration_;
  std::span<std::byte> bytes_;
  std::uint32_t local_key_ = 0;
};

/// Memory that the library allocates (zeroed, page aligned) and registers.
///
/// A buffer cannot be freed under a request. If it is destroyed while requests of the domain's
/// queue pairs are outstanding, its memory stays allocated and registered until all requests that
/// were posted before have completed, or their queue pairs are destroyed. The next call that
/// allocates, registers or destroys in the domain then frees it. So a coroutine may be destroyed
/// with its buffers at any point. This costs nothing per request: queue pairs count posted and
/// completed requests anyway.
class Buffer : public RegisteredMemory {
 public:
  template <typename T>
  std::span<T> as() const noexcept VERBATIM_LIFETIME_BOUND {
    return {reinterpret_cast<T*>(bytes_.data()), bytes_.size() / sizeof(T)};
  }
  Buffer(Buffer&&) noexcept = default;
  Buffer& operator=(Buffer&&) noexcept;
  ~Buffer();

 private:
  friend class ProtectionDomain;
  using RegisteredMemory::RegisteredMemory;
};

/// Eight bytes that peers change with `compare_and_swap` and `fetch_and_add`. The local program may
/// load them at any time. Whether the CPU's own atomic instructions and the adapter's exclude each
/// other depends on the adapter (`ibv_device_attr::atomic_cap`), so use `store` only before peers
/// have the token.
class AtomicCell {
 public:
  std::uint64_t load() const noexcept {
    return std::atomic_ref(*buffer_.as<std::uint64_t>().data()).load(std::memory_order_acquire);
  }
  void store(std::uint64_t value) noexcept {
    std::atomic_ref(*buffer_.as<std::uint64_t>().data()).store(value, std::memory_order_release);
  }
  RegionToken token() const noexcept { return buffer_.token(); }
  /// The slice is also used for the old value that a request returns.
  Slice slice() const noexcept VERBATIM_LIFETIME_BOUND { return buffer_.slice(); }

 private:
  friend class ProtectionDomain;
  explicit AtomicCell(Buffer buffer) : buffer_(std::move(buffer)) {}
  Buffer buffer_;
};

/// A protection domain. Copies share it; it is deallocated when the last copy, and everything made
/// from it, is destroyed. Thread-safe.
class ProtectionDomain {
 public:
  /// Fails with `Call::register_memory`; the detail says if the limit on locked memory is the
  /// likely cause.
  Result<Buffer> allocate(std::size_t size, Access access = Access::all) const;
  Result<RegisteredMemory> register_memory(std::span<std::byte> memory,
                                           Access access = Access::all) const;
  Result<AtomicCell> allocate_atomic(std::uint64_t value = 0) const;

  const Context& context() const noexcept;
  ibv_pd* native() const noexcept;

  const std::shared_ptr<detail::DomainHandle>& handle() const noexcept { return handle_; }

 private:
  friend class Context;
  explicit ProtectionDomain(std::shared_ptr<detail::DomainHandle> handle)
      : handle_(std::move(handle)) {}
  std::shared_ptr<detail::DomainHandle> handle_;
};

}  // namespace verbatim::inline v1

#include "cli/cluster/capabilities.h"

#include <array>
#include <cstdint>

#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace verbatim::cli::cluster {
namespace {

using Sets = std::array<__user_cap_data_struct, 2>;  // Of 32 capabilities each.

Sets current() {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  Sets sets{};
  syscall(SYS_capget, &header, sets.data());
  return sets;
}

void set(const Sets& sets) {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  syscall(SYS_capset, &header, sets.data());
}

bool has(const Sets& sets, unsigned capability) {
  return (sets[CAP_TO_INDEX(capability)].effective & CAP_TO_MASK(capability)) != 0;
}

}  // namespace

void keep_across_exec() {
  Sets sets = current();
  for (const unsigned one : {CAP_SYS_ADMIN, CAP_SYS_PTRACE, CAP_NET_ADMIN}) {
    if (has(sets, one)) sets[CAP_TO_INDEX(one)].inheritable |= CAP_TO_MASK(one);
  }
  set(sets);
  for (const unsigned one : {CAP_SYS_ADMIN, CAP_SYS_PTRACE, CAP_NET_ADMIN}) {
    if (has(sets, one)) prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, one, 0, 0);
  }
}

void drop_capabilities() {
  prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
  set({});
}

bool has_admin_capability() { return has(current(), CAP_SYS_ADMIN); }

}  // namespace verbatim::cli::cluster

#pragma once

namespace verbatim::ulp::disk::vhost {

/// verbatim-ulpd vhost-user KEY=VALUE...: a disk as the device of a virtual machine, in the
/// foreground. `verbatim disk --vhost-user` starts it. Besides what every disk is told: socket,
/// and read-only=1.
int run_vhost_user(int argc, char** argv);

}  // namespace verbatim::ulp::disk::vhost

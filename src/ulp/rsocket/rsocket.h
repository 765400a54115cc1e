#pragma once

/// The C interface of rsocket(7), from librdmacm's own header. Everything declared here is
/// exported.
#pragma GCC visibility push(default)
#include <rdma/rsocket.h>
#pragma GCC visibility pop

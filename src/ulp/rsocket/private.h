#pragma once

/// A private symbol of our librdmacm for librspreload, beside rsocket(7).
extern "C" {

/// dup3(2), if `from`, `number` or both are rsockets: `number` atomically becomes another fd of
/// `from`'s file and is no longer an fd of its earlier file. An rsocket ends with its last fd.
/// Returns `number`, or -1 with errno as dup3(2).
__attribute__((visibility("default"))) int verbatim_rdup3(int from, int number, int flags);

}  // extern "C"

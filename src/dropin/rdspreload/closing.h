#pragma once

/// Descriptors that the program closes.
namespace verbatim::rdspreload {

/// Before it is closed: what this library has of it ends.
void forget(int fd);
void forget(int first, int last);

}  // namespace verbatim::rdspreload

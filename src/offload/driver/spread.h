#pragma once

#include "offload/driver/device.h"

/// How received frames are spread over a port's queues: by a table of queues that a program may
/// write, and the hash of the frame's flow, whose key is the card's own.
namespace verbatim::offload::driver {

/// Sets the functions of the table and the hash.
void add_spread_operations(eth_dev_ops& operations);
/// What a port says of them.
void tell_spread(rte_eth_dev_info& info);
/// Before a port starts: the card gets the table that its user has written.
void give_spread(const Port& port, vnic_port& shared);

}  // namespace verbatim::offload::driver

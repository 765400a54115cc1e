/*
 * How a card attaches to the kernel's driver (kernel/ at the root of the tree): by its device,
 * whose memory both have. The card opens it, says VNIC_ATTACH, and maps the region (offset 0) and
 * the packet memory. Then EPOLLIN is the doorbell, which a read() silences, and a write() of any
 * bytes is the card's interrupt. The file's end is the card's.
 */
#pragma once

#include <linux/ioctl.h>

#include "offload/ring/layout.h"

#define VNIC_DEVICE "verbatim-nic" /* In /dev. */

struct vnic_attach {
  struct vnic_message header;  /* VNIC_HELLO */
  struct vnic_welcome welcome; /* From the card. */
  struct vnic_memory memory;   /* Answered: the packet memory, and where in the device it is. */
};

#define VNIC_ATTACH _IOWR('V', 1, struct vnic_attach)

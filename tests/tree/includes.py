"""Who includes whom: the table of the house. A folder of src/ with a row is a room. A file may include its own
room's files and those that lie below a folder which its room's row names; nothing in src/ includes tests, benchmarks or
the simulation. A file that says a folder's namespace (`region::`) uses that folder, whichever header brought it."""

# Room of src/ -> what it may include besides itself. A name that ends in .h is one header alone.
MAY_INCLUDE = {
    "base": (),
    "config": ("base",),
    "observe": ("base",),
    "wire": ("base",),
    "region": ("base",),
    "region/adoption": ("base", "region"),
    "transport": ("base", "observe", "wire", "region"),
    "cm": ("base", "observe", "wire"),
    "mad": ("base", "observe", "wire"),
    "subnet": ("base", "observe", "wire", "mad"),
    "fabric/topology": ("base",),
    "fabric/check": ("base", "fabric/topology"),
    "fabric/drawing": ("base",),
    "fabric/protocol": ("base", "service/folder.h"),
    "fabric/daemon": ("base", "wire", "mad", "fabric", "service/folder.h"),
    "fabric/management": ("base", "wire", "mad", "fabric/topology"),
    "fabric/trunk": ("base", "wire"),
    "fabric/keeper": ("base", "wire", "mad", "fabric/data", "fabric/management", "fabric/topology", "fabric/trunk"),
    "fabric/data": ("base", "wire", "fabric/topology"),
    "fabric": ("base", "observe", "wire", "mad"),
    "arena": ("base", "config", "observe", "region"),
    "link/fabric": ("base", "wire", "link", "fabric/data", "fabric/protocol"),
    # A function of a card is one of its carriers.
    "link": ("base", "observe", "wire", "offload/ring"),
    "port": ("base", "observe", "wire", "region", "arena", "link"),
    "adapter/progress": ("base",),
    "adapter/queues": ("base", "arena", "transport", "adapter/progress", "adapter/limits.h"),
    "adapter/memory": ("base", "arena", "region", "adapter/limits.h"),
    # wire: the transport's steps speak of its headers.
    "adapter/direct": ("base", "arena", "observe", "wire", "region", "transport", "adapter/memory", "adapter/progress"),
    # Frames are received into registered memory.
    "adapter/ethernet": ("base", "wire", "region", "arena", "link", "adapter/memory", "adapter/progress", "adapter/queues"),
    "adapter/queue_pair/core": ("base", "observe", "wire", "region", "transport", "arena", "port", "adapter/direct",
                                "adapter/progress", "adapter/queues"),
    # A frame is handed to the service of raw packets.
    "adapter/queue_pair": ("base", "observe", "wire", "region", "transport", "arena", "port", "adapter/direct",
                           "adapter/ethernet/frame_delivery.h", "adapter/progress", "adapter/queues", "adapter/queue_pair/core",
                           "adapter/services", "adapter/limits.h"),
    # cm: what the two ends of a stream have agreed on.
    "adapter/services": ("base", "observe", "wire", "region", "transport", "arena", "link", "port", "cm/iwarp/mpa_setup.h",
                         "adapter/direct", "adapter/ethernet", "adapter/memory", "adapter/progress", "adapter/queues",
                         "adapter/queue_pair/core", "adapter/limits.h"),
    "adapter": ("base", "observe", "wire", "region", "transport", "cm", "mad", "arena", "link", "port", "adapter"),
    "agent/protocol": ("base", "service/folder.h", "arena", "config", "wire"),
    "agent/client": ("base", "service/folder.h", "arena", "config", "wire", "agent/protocol"),
    "agent/fabric": ("base", "arena", "config", "mad", "wire", "agent/management/management_port.h", "agent/protocol", "fabric/protocol"),
    "agent/identity": ("base", "arena", "config", "agent/protocol"),
    "agent/sockets": ("base", "arena", "link", "agent/protocol"),
    "agent/management": ("base", "arena", "cm", "mad", "observe", "wire", "port", "agent/protocol"),
    # What a node's netlink tells is what its status tells, and how its programs' bindings are kept.
    "agent/netlink": ("base", "service/folder.h", "arena", "region", "wire", "agent/protocol", "agent/management/rdma_cm_ports.h",
                      "agent/server/port_totals.h", "agent/server/status.h"),
    "agent": ("base", "service/folder.h", "service/launch.h", "config", "observe", "wire", "region", "transport", "cm", "mad", "arena", "link", "port", "agent", "fabric/protocol"),
    "connect": ("base", "cm", "wire", "arena"),
    # A daemon and all that it is made of.
    "service": ("base", "config"),
    # Upper-layer protocols: engines see `ulp/engine` (and `ulp/storage`); drivers stand on the C interfaces.
    "ulp/engine": ("base",),
    "ulp/rdma": ("base", "service", "ulp/engine", "mad", "wire"),
    "ulp/tcp": ("base", "service", "ulp/engine", "ulp/rdma"),
    "ulp/storage": ("base", "ulp/engine"),
    "ulp/backstore": ("base", "service", "ulp/engine", "ulp/storage", "ulp/rdma"),
    "ulp/scsi": ("base", "ulp/engine", "ulp/storage"),
    "ulp/iscsi": ("base", "ulp/engine", "ulp/storage", "ulp/scsi"),
    "ulp/iser": ("base", "ulp/engine", "ulp/storage", "ulp/scsi", "ulp/iscsi"),
    "ulp/srp": ("base", "wire/mad", "ulp/engine", "ulp/storage", "ulp/scsi"),
    "ulp/nvmeof": ("base", "ulp/engine", "ulp/storage"),
    "ulp/target": ("base", "service", "ulp"),
    "ulp/target_tree": ("base",),
    "ulp/disk": ("base", "service", "ulp/engine", "ulp/rdma", "ulp/storage", "ulp/nvmeof", "ulp/srp", "ulp/iser",
                 "ulp/iscsi", "ulp/scsi"),
    "ulp/initiator": ("base", "service", "ulp/engine", "ulp/rdma", "ulp/storage", "ulp/nvmeof", "ulp/srp", "ulp/disk"),
    "ulp/ipoib": ("base", "service", "ulp/engine", "ulp/rdma", "mad", "wire", "fabric/protocol"),
    "ulp/rpcrdma": ("base", "service", "ulp/engine", "ulp/rdma", "ulp/tcp"),
    "ulp/rds": ("base", "service", "ulp/engine", "ulp/rdma"),
    "ulp/sdp": ("base", "ulp/engine", "ulp/rdma"),
    "ulp/lnet": ("base", "service", "ulp/engine", "ulp/rdma"),
    "ulp/sockets": ("base",),
    # The program `verbatim-ulpd`: a table of its kinds.
    "ulp": ("base", "service", "ulp"),
    "ulp/rsocket": ("base", "ulp/sockets/source.h", "ulp/sockets/urgent_mark.h", "ulp/sdp", "dropin/ibverbs/services.h"),
    "dropin/ibverbs": ("base", "region", "transport", "arena", "adapter", "port", "wire", "mad", "agent/client",
                       "agent/protocol/node.h", "link/fabric/fabric_link.h", "fabric/protocol", "config/device.h"),
    "dropin/ibumad": ("base", "fabric/protocol", "dropin/ibverbs/refusal.h"),
    "dropin/rdmacm": ("base", "arena", "connect", "dropin/ibverbs/services.h"),
    "dropin/rspreload": ("base", "dropin/rdmacm/locks.h", "ulp/sdp/rules.h", "ulp/rsocket/private.h", "ulp/sockets"),
    "dropin/rdspreload": ("base", "region", "ulp/rds/local"),
    "dropin": ("base",),
    "api": ("base", "include"),
    "infinity": ("include", "base/os/unique_fd.h"),
    # An embedded switch (engine), the memory that it shares with drivers, the process, the drivers.
    "offload/switch": ("base", "observe", "wire"),
    "offload/ring": ("base",),
    "offload/card": ("base", "observe", "wire", "service", "offload"),
    "offload/driver": ("base", "offload/ring"),
    "offload": ("base", "observe"),
    # The commands send requests to agents, as a drop-in does.
    "cli": ("base", "service", "config", "observe", "fabric", "subnet", "include", "agent/client", "agent/protocol",
            # `verbatim fabric check` asks subnet administrators for paths.
            "wire",
            # `verbatim run --fault` parses a plan, `verbatim capture` reads captured packets.
            "link/decorators/fault_plan.h", "link/capture_file/capture_file.h", "link/capture_file/capture_merge.h",
            # `verbatim rds ping` has an RDS socket.
            "ulp/rds/local",
            # `verbatim doctor` calls the same functions as programs do.
            "agent/identity/interfaces.h", "region/adoption/run_alone.h"),
    "dashboard": ("base", "observe"),
}

# Tests beside the code may use the test library, too.
TESTS_MAY_ALSO_INCLUDE = ("sim",)

# Headers of C libraries that upper-layer protocols call by their drivers alone: header -> folders below ulp/ that may include
# it. Engines see values.
C_HEADERS = {
    "infiniband/": ("ulp/rdma", "ulp/backstore", "ulp/disk", "ulp/rsocket"),
    "rdma/": ("ulp/rdma", "ulp/disk", "ulp/rsocket"),
    "liburing.h": ("ulp/backstore",),
}

# Deviations from the table: (room, other room) -> number of places. A number here may only fall.
NOT_YET = {
    ("adapter", "config::"): 1,
    ("adapter/direct", "adapter"): 2,
    ("adapter/direct", "adapter/queues"): 4,
    ("adapter/direct", "port"): 1,
    ("adapter/memory", "adapter/queues"): 1,
    ("adapter/queues", "adapter"): 1,
    ("adapter/queues", "region::"): 1,
    ("adapter/queues", "wire"): 1,
    ("adapter/queues", "wire::"): 3,
    ("adapter/services", "adapter"): 1,
    ("agent/client", "agent"): 2,
    ("agent/client", "agent/management"): 1,
    ("agent/client", "link::"): 2,
    ("agent/identity", "agent"): 1,
    ("agent/identity", "agent/client"): 1,
    ("agent/management", "link"): 1,
    ("agent/management", "link::"): 1,
    ("agent/sockets", "agent"): 1,
    ("dropin/ibverbs", "agent/protocol"): 2,
    ("dropin/ibverbs", "cm::"): 1,
    ("dropin/rdmacm", "adapter/queues"): 1,
    ("dropin/rdmacm", "adapter::"): 2,
    ("dropin/rdmacm", "dropin/ibverbs"): 1,
    ("region", "region/adoption"): 1,
}
# Units that include each other. Entries may only be removed.
KNOTS = (
    ("api/party", "api/posting", "api/queue", "api/shared_receives"),
)

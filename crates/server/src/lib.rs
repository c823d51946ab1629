//! Driver 2: io_uring, NBD sockets, member disks and NVS devices.

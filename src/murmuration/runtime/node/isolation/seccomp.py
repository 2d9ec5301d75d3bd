"""System calls that a container is refused: those that make namespaces and mounts, load code into
the kernel, read other processes, or have been the way out of containers before.

Programs for ordinary work use none of them. A call is refused with the error that a program knows
how to take: not permitted, or (where a program then tries an older call) not there.
"""

from __future__ import annotations

EPERM, ENOSYS = 1, 38
#: Bits of `clone` that make namespaces: mounts, control groups, host name, messages, users,
#: processes, network.
NAMESPACES = [0x00020000, *(1 << k for k in range(25, 31))]
REFUSED = [
    # Mounts and roots.
    "mount",
    "umount",
    "umount2",
    "pivot_root",
    "move_mount",
    "open_tree",
    "fsopen",
    "fsconfig",
    "fsmount",
    "fspick",
    "mount_setattr",
    "setns",
    "unshare",
    "open_by_handle_at",
    "name_to_handle_at",
    "quotactl",
    "quotactl_fd",
    "swapon",
    "swapoff",
    # The kernel itself.
    "init_module",
    "finit_module",
    "delete_module",
    "kexec_load",
    "kexec_file_load",
    "bpf",
    "perf_event_open",
    "userfaultfd",
    "lookup_dcookie",
    "reboot",
    "acct",
    "syslog",
    "nfsservctl",
    "_sysctl",
    "uselib",
    "ustat",
    "iopl",
    "ioperm",
    "vm86",
    "vm86old",
    # Clocks of the host.
    "settimeofday",
    "stime",
    "clock_settime",
    "clock_settime64",
    "clock_adjtime",
    "clock_adjtime64",
    "adjtimex",
    # Keys belong to the host's root, not to a container.
    "add_key",
    "keyctl",
    "request_key",
    # Other processes' memory.
    "process_vm_readv",
    "process_vm_writev",
    "kcmp",
    "pidfd_getfd",
    "ptrace",
    "move_pages",
    "migrate_pages",
]
#: Without these, programs and libraries go back to what was there before.
NOT_THERE = ["clone3", "io_uring_setup", "io_uring_enter", "io_uring_register"]


def make_filter() -> dict[str, object]:
    """The filter as runc's configuration has it."""
    has_bit = {"index": 0, "op": "SCMP_CMP_MASKED_EQ"}
    clones = [
        {
            "names": ["clone"],
            "action": "SCMP_ACT_ERRNO",
            "errnoRet": EPERM,
            "args": [{**has_bit, "value": bit, "valueTwo": bit}],
        }
        for bit in NAMESPACES
    ]
    return {
        "defaultAction": "SCMP_ACT_ALLOW",
        "architectures": [
            "SCMP_ARCH_X86_64",
            "SCMP_ARCH_X86",
            "SCMP_ARCH_X32",
            "SCMP_ARCH_AARCH64",
            "SCMP_ARCH_ARM",
        ],
        "syscalls": [
            {"names": REFUSED, "action": "SCMP_ACT_ERRNO", "errnoRet": EPERM},
            {"names": NOT_THERE, "action": "SCMP_ACT_ERRNO", "errnoRet": ENOSYS},
            *clones,
        ],
    }

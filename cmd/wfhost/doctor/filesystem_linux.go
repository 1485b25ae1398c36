package doctor

import "golang.org/x/sys/unix"

// fileSystem returns the type of a folder's file system, whether it is in memory, and whether it is on another
// machine.
func fileSystem(dir string) (kind string, volatile, remote bool) {
	var s unix.Statfs_t
	if unix.Statfs(dir, &s) != nil {
		return "", false, false
	}
	switch uint32(s.Type) { //nolint:gosec // the magic numbers have 32 bits
	case unix.TMPFS_MAGIC:
		return "tmpfs", true, false
	case unix.RAMFS_MAGIC:
		return "ramfs", true, false
	case unix.NFS_SUPER_MAGIC:
		return "nfs", false, true
	case 0xff534d42, 0xfe534d42:
		return "smb", false, true
	case unix.V9FS_MAGIC:
		return "9p", false, true
	case 0x65735546:
		return "fuse", false, true
	case unix.OVERLAYFS_SUPER_MAGIC:
		return "overlay", false, false
	case unix.EXT4_SUPER_MAGIC:
		return "ext4", false, false
	case unix.XFS_SUPER_MAGIC:
		return "xfs", false, false
	case unix.BTRFS_SUPER_MAGIC:
		return "btrfs", false, false
	case 0x2fc12fc1:
		return "zfs", false, false
	}
	return "", false, false
}

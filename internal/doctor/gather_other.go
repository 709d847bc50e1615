//go:build !linux

package doctor

import (
	"os"
	"syscall"
)

// gatherSystem reads the only fact that is available on this system: the limit of open files.
func gatherSystem(f *Facts) {
	var r syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &r) == nil {
		f.Limits.Files = uint64(r.Cur)
	}
}

func writable(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().Perm()&0o200 != 0
}

// gatherDisk reads the properties of a folder's file system. On this system, gatherDisk does not
// measure the speed.
func gatherDisk(path string, _ *Clock) Disk {
	d := Disk{Path: path}
	var s syscall.Statfs_t
	if err := syscall.Statfs(path, &s); err != nil {
		d.Err = err.Error()
		return d
	}
	d.Total, d.Free = uint64(s.Blocks)*uint64(s.Bsize), uint64(s.Bavail)*uint64(s.Bsize)
	return d
}

func sameDisk(a, b string) bool {
	x, errA := os.Stat(a)
	y, errB := os.Stat(b)
	return errA == nil && errB == nil && x.Sys().(*syscall.Stat_t).Dev == y.Sys().(*syscall.Stat_t).Dev
}

// lockHolder returns no holder, because the holder is unknown on this system.
func lockHolder(string) (bool, Holder) { return false, Holder{} }

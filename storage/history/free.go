//go:build linux || darwin

package history

import "golang.org/x/sys/unix"

// Free returns the number of bytes that this process may still write to the file system of a folder.
func Free(dir string) (uint64, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return 0, err
	}
	return uint64(s.Bavail) * uint64(s.Bsize), nil
}

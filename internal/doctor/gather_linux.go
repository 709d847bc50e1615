package doctor

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Limits of the disk measurement.
const (
	syncTries = 15
	syncLimit = 500 * time.Millisecond
	syncBytes = 4096
)

// gatherSystem reads Linux's facts about the machine and this process.
func gatherSystem(f *Facts) {
	info, _ := os.ReadFile("/proc/meminfo")
	f.Memory.Total, f.Memory.Available = meminfo(info, "MemTotal:"), meminfo(info, "MemAvailable:")
	f.Memory.Cgroup = number("/sys/fs/cgroup/memory.max")
	if quota, err := os.ReadFile("/sys/fs/cgroup/cpu.max"); err == nil {
		f.CPUQuota = cpuQuota(string(quota))
	}
	l := &f.Limits
	l.Files = limit(unix.RLIMIT_NOFILE)
	l.AddressSpace, l.FileSize = limit(unix.RLIMIT_AS), limit(unix.RLIMIT_FSIZE)
	l.Mappings, l.Overcommit = number("/proc/sys/vm/max_map_count"), int(number("/proc/sys/vm/overcommit_memory"))
	var x unix.Timex
	if state, err := unix.Adjtimex(&x); err == nil { // x.Modes is 0, so this call only reads
		synced := state != unix.TIME_ERROR && x.Status&unix.STA_UNSYNC == 0
		f.Clock.Synced = &synced
	}
}

// meminfo returns a value of /proc/meminfo in bytes.
func meminfo(text []byte, name string) uint64 {
	_, line, _ := bytes.Cut(text, []byte(name))
	if w := bytes.Fields(line); len(w) > 1 && string(w[1]) == "kB" {
		if n, err := strconv.ParseUint(string(w[0]), 10, 54); err == nil {
			return n << 10
		}
	}
	return 0
}

// cpuQuota parses cpu.max and returns a number of cores: "150000 100000" allows 1.5 cores. 0 means
// no limit.
func cpuQuota(text string) float64 {
	var quota, period float64
	if n, _ := fmt.Sscanf(text, "%f %f", &quota, &period); n != 2 || quota <= 0 || period <= 0 {
		return 0
	}
	return quota / period
}

// number reads a number from a file. number returns 0 if the file contains no number.
func number(path string) uint64 {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0
	}
	n, _ := strconv.ParseUint(string(bytes.TrimSpace(text)), 10, 64)
	return n
}

// limit returns a soft limit of this process, or 0 if there is none. Go raises the limit of open
// files at start.
func limit(resource int) uint64 {
	var r unix.Rlimit
	if unix.Getrlimit(resource, &r) != nil || r.Cur == unix.RLIM_INFINITY {
		return 0
	}
	return r.Cur
}

func writable(path string) bool { return unix.Access(path, unix.W_OK|unix.X_OK) == nil }

// fileSystems maps the magic numbers of statfs to names.
var fileSystems = map[uint32]string{
	0xef53: "ext4", 0x58465342: "xfs", 0x9123683e: "btrfs", 0x2fc12fc1: "zfs", 0xf2f52010: "f2fs", 0x01021994: "tmpfs", 0x858458f6: "ramfs",
	0x794c7630: "overlay", 0x6969: "nfs", 0xff534d42: "cifs", 0xfe534d42: "cifs", 0x01021997: "9p", 0x65735546: "fuse",
}

// gatherDisk reads the properties of a folder's file system. It measures synced writes to an
// unnamed temporary file, which the system removes when gatherDisk closes the file.
func gatherDisk(path string, clock *Clock) Disk {
	d := Disk{Path: path}
	var s unix.Statfs_t
	if err := unix.Statfs(path, &s); err != nil {
		d.Err = err.Error()
		return d
	}
	block := uint64(s.Bsize)
	d.Type, d.Total, d.Free = fileSystems[uint32(s.Type)], s.Blocks*block, s.Bavail*block
	d.Files, d.Limited = s.Ffree, s.Files > 0
	if d.ReadOnly = s.Flags&unix.ST_RDONLY != 0; d.ReadOnly {
		return d
	}
	fd, err := unix.Open(path, unix.O_TMPFILE|unix.O_RDWR|unix.O_CLOEXEC, 0o600)
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EISDIR) || errors.Is(err, unix.ENOENT) {
		return d // this file system or kernel supports no unnamed files
	}
	if err != nil {
		d.SyncErr, d.Full = err.Error(), full(err)
		return d
	}
	f := os.NewFile(uintptr(fd), path)
	defer func() { _ = f.Close() }()
	block4 := make([]byte, syncBytes)
	var took []time.Duration
	for begun := time.Now(); len(took) < syncTries && time.Since(begun) < syncLimit; {
		at := time.Now()
		_, err := f.Write(block4)
		if err == nil {
			err = f.Sync()
		}
		if err != nil {
			d.SyncErr, d.Full = bare(err), full(err)
			return d
		}
		took = append(took, time.Since(at))
	}
	slices.Sort(took)
	d.Sync = max(took[len(took)/2], 1)
	if info, err := f.Stat(); err == nil && clock.Files == nil {
		skew := time.Until(info.ModTime())
		clock.Files = &skew
	}
	return d
}

func full(err error) bool { return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) }

// sameDisk returns whether two folders are on the same file system.
func sameDisk(a, b string) bool {
	var x, y unix.Stat_t
	return unix.Stat(a, &x) == nil && unix.Stat(b, &y) == nil && x.Dev == y.Dev
}

// lockHolder returns whether a process holds the lock of a file, and which process. It does not
// take the lock.
func lockHolder(path string) (bool, Holder) {
	var s unix.Stat_t
	if unix.Stat(path, &s) != nil {
		return false, Holder{}
	}
	text, err := os.ReadFile("/proc/locks")
	if err != nil {
		return false, Holder{}
	}
	pid, locked := lockIn(string(text), fmt.Sprintf("%02x:%02x:%d", unix.Major(s.Dev), unix.Minor(s.Dev), s.Ino))
	if !locked {
		return false, Holder{}
	}
	return true, Holder{pid, comm(pid)}
}

// lockIn looks for a file in the text of /proc/locks: "1: FLOCK  ADVISORY  WRITE 42 fe:00:131 0 EOF".
func lockIn(text, file string) (pid int, locked bool) {
	for in := bufio.NewScanner(strings.NewReader(text)); in.Scan(); {
		w := strings.Fields(in.Text())
		if len(w) < 6 || w[1] == "->" || w[5] != file { // "->" marks a process that waits for the lock
			continue
		}
		pid, _ = strconv.Atoi(w[4])
		return max(pid, 0), true
	}
	return 0, false
}

package doctor

import (
	"bufio"
	"encoding/hex"
	"fmt"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Bounds of the search for a process.
const (
	maxSockets   = 100_000
	maxProcesses = 100_000
	maxFDs       = 100_000 // open files of one process
)

// listening is the state of a listening socket in /proc/net/tcp.
const listening = "0A"

// holder finds the process that listens at an address, or at the same port of all addresses. Only
// root sees processes of other users.
func holder(a netip.AddrPort) Holder {
	var inodes []string
	for _, file := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		f, err := os.Open(file)
		if err != nil {
			continue
		}
		inodes = append(inodes, listenersAt(f, a)...)
		_ = f.Close()
	}
	if len(inodes) == 0 {
		return Holder{}
	}
	for pid := range processes() {
		if holds(pid, inodes) {
			return Holder{pid, comm(pid)}
		}
	}
	return Holder{}
}

// listenersAt returns the inodes of the sockets that listen at an address, from the text of
// /proc/net/tcp or tcp6.
func listenersAt(text io.Reader, a netip.AddrPort) (inodes []string) {
	in := bufio.NewScanner(text)
	for n := 0; in.Scan() && n < maxSockets; n++ {
		f := strings.Fields(in.Text()) // sl local remote state tx:rx tr:when retrnsmt uid timeout inode
		if len(f) < 10 || f[3] != listening {
			continue
		}
		at, ok := parseSocket(f[1])
		if !ok || at.Port() != a.Port() {
			continue
		}
		if ip := at.Addr(); ip == a.Addr().Unmap() || ip.IsUnspecified() || a.Addr().IsUnspecified() {
			inodes = append(inodes, "socket:["+f[9]+"]")
		}
	}
	return inodes
}

// parseSocket parses "0100007F:0BD6". The address consists of four-byte words in the machine's byte
// order. All machines that this program runs on are little endian.
func parseSocket(s string) (a netip.AddrPort, ok bool) {
	host, port, _ := strings.Cut(s, ":")
	b, err := hex.DecodeString(host)
	if err != nil || len(b) != 4 && len(b) != 16 {
		return a, false
	}
	for i := 0; i < len(b); i += 4 {
		slices.Reverse(b[i : i+4])
	}
	ip, _ := netip.AddrFromSlice(b)
	n, err := strconv.ParseUint(port, 16, 16)
	return netip.AddrPortFrom(ip.Unmap(), uint16(n)), err == nil
}

// processes yields the ids of the processes that the user sees.
func processes() func(func(int) bool) {
	return func(yield func(int) bool) {
		dir, err := os.Open("/proc")
		if err != nil {
			return
		}
		names, _ := dir.Readdirnames(maxProcesses)
		_ = dir.Close()
		for _, name := range names {
			if pid, err := strconv.Atoi(name); err == nil && !yield(pid) {
				return
			}
		}
	}
}

// holds returns whether a process has one of these files open.
func holds(pid int, files []string) bool {
	path := fmt.Sprintf("/proc/%d/fd", pid)
	dir, err := os.Open(path)
	if err != nil {
		return false
	}
	names, _ := dir.Readdirnames(maxFDs)
	_ = dir.Close()
	for _, name := range names {
		if to, err := os.Readlink(filepath.Join(path, name)); err == nil && slices.Contains(files, to) {
			return true
		}
	}
	return false
}

// comm returns the name of a process. The process may have chosen this name itself.
func comm(pid int) string {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	if err != nil {
		return ""
	}
	return clean(strings.TrimSuffix(string(b), "\n"))
}

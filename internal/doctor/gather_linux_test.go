package doctor

import (
	"net"
	"net/netip"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestDamagedProcTextsAreParsed reads texts of /proc and of cgroups, also damaged ones.
func TestDamagedProcTextsAreParsed(t *testing.T) {
	if got := meminfo([]byte("MemTotal:       2048 kB\nMemAvailable:    1 kB\n"), "MemTotal:"); got != 2<<20 {
		t.Errorf("MemTotal = %d", got)
	}
	for _, bad := range []string{"", "MemTotal:", "MemTotal: x kB", "MemTotal: 1 MB", "MemTotal: 99999999999999999999 kB"} {
		if got := meminfo([]byte(bad), "MemTotal:"); got != 0 {
			t.Errorf("%q: got %d", bad, got)
		}
	}
	for text, want := range map[string]float64{"150000 100000": 1.5, "max 100000": 0, "": 0, "-1 0": 0, "1 0": 0} {
		if got := cpuQuota(text); got != want {
			t.Errorf("cpu.max %q: %v", text, got)
		}
	}
	const locks = "1: POSIX  ADVISORY  WRITE 9 00:01:5 0 EOF\n2: FLOCK  ADVISORY  WRITE 42 fe:00:131 0 EOF\n2: -> FLOCK  ADVISORY  WRITE 43 fe:00:131 0 EOF\nbroken\n"
	if pid, locked := lockIn(locks, "fe:00:131"); pid != 42 || !locked {
		t.Errorf("the lock is of %d, %v", pid, locked)
	}
	if _, locked := lockIn(locks, "fe:00:13"); locked {
		t.Error("another file is locked")
	}
	for text, want := range map[string]string{"0100007F:0BD6": "127.0.0.1:3030",
		"00000000000000000000000001000000:0050": "[::1]:80", "0000000000000000FFFF00000100007F:0050": "127.0.0.1:80"} {
		if got, ok := parseSocket(text); !ok || got.String() != want {
			t.Errorf("%s is %v, %v", text, got, ok)
		}
	}
	for _, bad := range []string{"", ":", "01:1", "0100007F", "0100007F:10000", "xx00007F:0050"} {
		if _, ok := parseSocket(bad); ok {
			t.Errorf("%q is a socket", bad)
		}
	}
}

// TestProcessAtPortIsFound finds the process that listens at an address, at another one with the
// same port, and on all addresses.
func TestProcessAtPortIsFound(t *testing.T) {
	for _, at := range []string{"127.0.0.1:0", "0.0.0.0:0"} {
		l, err := net.Listen("tcp4", at)
		if err != nil {
			t.Fatal(err)
		}
		a := netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), l.Addr().(*net.TCPAddr).AddrPort().Port())
		if state, h := PortAt(a); state != PortUsed || h.PID != os.Getpid() || !strings.Contains(PortProblem(a), "is in use by PID") {
			t.Errorf("%v: %s, held by %v; this is %d", a, state, h, os.Getpid())
		}
		_ = l.Close()
		if state, h := PortAt(a); state != PortFree || h.PID != 0 || PortProblem(a) != "" {
			t.Errorf("%v: %s, held by %v", a, state, h)
		}
	}
	if state, _ := PortAt(netip.MustParseAddrPort("192.0.2.1:80")); state != PortNoSuch {
		t.Errorf("an address of another machine is %s", state)
	}
}

// TestMeasureDiskLeavesNoFile times writes without leaving a file.
func TestMeasureDiskLeavesNoFile(t *testing.T) {
	dir := t.TempDir()
	var c Clock
	d := gatherDisk(dir, &c)
	if d.Err != "" || d.SyncErr != "" || d.Total == 0 {
		t.Errorf("difference %+v", d)
	}
	if list, err := os.ReadDir(dir); err != nil || len(list) != 0 {
		t.Errorf("files left: %v, %v", list, err)
	}
	if d := gatherDisk(dir+"/none", &c); d.Err == "" {
		t.Errorf("a folder that is not there: %+v", d)
	}
	full := t.TempDir()
	if err := unix.Mount("tmpfs", full, "tmpfs", 0, "size=16k"); err != nil {
		t.Skip("no right to mount: ", err)
	}
	defer func() { _ = unix.Unmount(full, 0) }()
	if err := os.WriteFile(full+"/x", make([]byte, 64<<10), 0o600); err == nil {
		t.Fatal("16 KiB take 64")
	}
	if d := gatherDisk(full, &c); !d.Full || d.Type != "tmpfs" {
		t.Errorf("a full disk: %+v", d)
	}
}

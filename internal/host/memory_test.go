package host

import (
	"os"
	"testing"
)

func TestMachineMemory(t *testing.T) {
	const info = "MemTotal:       24689148 kB\nMemFree:         1220000 kB\n"
	for _, tt := range []struct {
		info, group string
		want        uint64
	}{
		{info, "max\n", 24689148 << 10}, {info, "", 24689148 << 10}, {info, "1073741824\n", 1 << 30}, {info, "99999999999999\n", 24689148 << 10},
		{"", "1073741824\n", 1 << 30}, {"", "", unknownMemory}, {"MemTotal: x kB\n", "0", unknownMemory},
	} {
		got := machineMemory(func(name string) ([]byte, error) {
			s := map[string]string{"/proc/meminfo": tt.info, "/sys/fs/cgroup/memory.max": tt.group}[name]
			if s == "" {
				return nil, os.ErrNotExist
			}
			return []byte(s), nil
		})
		if got != tt.want {
			t.Errorf("%q, %q: %d, want %d", tt.info, tt.group, got, tt.want)
		}
	}
	if got := stateMemory(5); got != 5 {
		t.Errorf("configured 5: %d", got)
	}
}

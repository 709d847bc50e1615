package daemon

import (
	"os"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/troupe-chain/troupe/internal/config"
	"github.com/troupe-chain/troupe/storage"
)

func TestMachineMemoryIsBoundedByCgroup(t *testing.T) {
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

// TestCachesFollowMemory: the block cache may take half of the memory for tries, unless it is
// configured.
func TestCachesFollowMemory(t *testing.T) {
	for _, tt := range []struct {
		name   string
		config config.Config
		want   storage.Options
	}{
		{"8 GiB for tries", config.Config{StateMemory: 8 << 30}, storage.Options{BlockCache: 1 << 30, MaxBlockCache: 4 << 30}},
		{"100 GiB", config.Config{StateMemory: 100 << 30}, storage.Options{BlockCache: 1 << 30, MaxBlockCache: 50 << 30}},
		{"16 MiB", config.Config{StateMemory: 16 << 20}, storage.Options{BlockCache: 48 << 20, MaxBlockCache: 8 << 20}},
		{"configured", config.Config{StateMemory: 8 << 30, BlockCache: 5, WriteBuffer: 6}, storage.Options{BlockCache: 5, WriteBuffer: 6}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var o storage.Options
			setCaches(&o, &tt.config)
			if !reflect.DeepEqual(o, tt.want) {
				t.Errorf("%+v, want %+v", o, tt.want)
			}
		})
	}
}

// TestLimitsInFlightScaleWithMemory: the memory limits of requests and replies follow the machine's
// memory; a limit in config.json is used unchanged; /metrics reports the limits in use.
func TestLimitsInFlightScaleWithMemory(t *testing.T) {
	memory := machineMemory(os.ReadFile)
	for _, tt := range []struct {
		name, rpc string
		want      [2]uint64
	}{
		{"derived", `{}`, [2]uint64{max(48<<20, memory/16), max(40<<20, memory/20)}},
		{"named", `{"max_bytes_in_flight": 50331648, "max_bytes_in_flight_per_address": 2097152}`, [2]uint64{48 << 20, 2 << 20}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := made(t)
			set(t, dir, `"rpc": `+tt.rpc)
			h := mustStart(t, dir)
			defer stop(t, h)
			_, text := get(t, h, "/metrics")
			for i, key := range []string{"max_bytes_in_flight", "max_bytes_in_flight_per_address"} {
				line := "\ntroupe_rpc_limit{limit=\"" + key + "\"} " + strconv.FormatFloat(float64(tt.want[i]), 'g', -1, 64) + "\n"
				if !strings.Contains(text, line) {
					t.Errorf("/metrics lacks %s", line)
				}
			}
		})
	}
}

package daemon

import (
	"bytes"
	"os"
	"strconv"

	"github.com/troupe-chain/troupe/internal/config"
	"github.com/troupe-chain/troupe/rpc/limits"
	"github.com/troupe-chain/troupe/storage"
)

// unknownMemory is what a machine is taken to have that does not say.
const unknownMemory = 8 << 30

// stateMemory returns what the tries may take: as configured, or a quarter of what the machine has,
// or this process may have of it. The rest is for what is loaded and changed between two folds, for
// the collector of garbage, and for the system, whose cache of files is where the flat state is
// read from.
func stateMemory(configured uint64) uint64 {
	if configured != 0 {
		return configured
	}
	return machineMemory(os.ReadFile) / 4
}

// rpcLimits returns the limits of the RPC: those that config.json names, and the defaults of the
// others on this machine.
func rpcLimits(c *config.RPC) limits.Limits {
	l := c.Limits
	l.FitMemory(machineMemory(os.ReadFile), &c.Named)
	return l
}

// blockCache is how much the index may keep of what it has read: as configured, or an eighth of
// what the tries may take. It has the tables' own indices and filters beside the blocks, some 2 %
// of the index; below that each look reads them again.
func blockCache(c *config.Config) int {
	if c.BlockCache != 0 {
		return int(c.BlockCache)
	}
	return int(min(max(stateMemory(c.StateMemory)/8, storage.DefaultBlockCache), 1<<30))
}

// machineMemory is what Linux says of the machine and of the group of processes that this one is
// in, whichever is less.
func machineMemory(read func(string) ([]byte, error)) uint64 {
	least := uint64(0)
	info, _ := read("/proc/meminfo")
	if _, line, ok := bytes.Cut(info, []byte("MemTotal:")); ok {
		if f := bytes.Fields(line); len(f) > 1 && string(f[1]) == "kB" {
			if n, err := strconv.ParseUint(string(f[0]), 10, 54); err == nil {
				least = n << 10
			}
		}
	}
	group, _ := read("/sys/fs/cgroup/memory.max")
	if n, err := strconv.ParseUint(string(bytes.TrimSpace(group)), 10, 64); err == nil && n > 0 && (least == 0 || n < least) {
		least = n
	}
	if least == 0 {
		return unknownMemory
	}
	return least
}

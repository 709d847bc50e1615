package daemon

import (
	"bytes"
	"os"
	"strconv"

	"github.com/troupe-chain/troupe/internal/config"
	"github.com/troupe-chain/troupe/rpc/limits"
	"github.com/troupe-chain/troupe/storage"
)

// unknownMemory is the memory in bytes assumed if the system does not report it.
const unknownMemory = 8 << 30

// stateMemory returns the memory budget of the tries in bytes: the configured budget, or a quarter
// of the memory of the machine or its cgroup. The rest of the memory is for state that is loaded
// and changed between two advances of the flat head, for the garbage collector, and for the page
// cache, from which flat state is read.
func stateMemory(configured uint64) uint64 {
	if configured != 0 {
		return configured
	}
	return machineMemory(os.ReadFile) / 4
}

// rpcLimits returns the limits of the RPC: the limits that config.json sets, and for all other
// limits the defaults fitted to the machine's memory.
func rpcLimits(c *config.RPC) limits.Limits {
	l := c.Limits
	l.FitMemory(machineMemory(os.ReadFile), &c.Named)
	return l
}

// setCaches sets the sizes of the index's caches. Without a configured size, the block cache has an
// eighth of the trie budget, at most 1 GiB. It also contains the index blocks and filters of the
// tables. So the store enlarges it as the index grows, up to half of the trie budget.
func setCaches(o *storage.Options, c *config.Config) {
	o.WriteBuffer, o.BlockCache = int(c.WriteBuffer), int(c.BlockCache)
	if o.BlockCache == 0 {
		tries := stateMemory(c.StateMemory)
		o.BlockCache = int(min(max(tries/8, storage.DefaultBlockCache), 1<<30))
		o.MaxBlockCache = int(min(tries/2, 1<<40))
	}
}

// machineMemory returns the memory that Linux reports for the machine or for this process's cgroup,
// whichever is less.
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
